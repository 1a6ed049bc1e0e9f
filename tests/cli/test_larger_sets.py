"""Totals: what the commands say about sets that are larger than in training."""

import numpy as np
from pyarrow import csv

from janossy.estimators import candidates
from janossy.estimators.candidates import Candidate
from tests.cli.commands import janossy, write  # noqa: F401

NAME = "sum (readout_depth=0)"


def table(sizes, seed):
    """Returns orders of these sizes, with the total of amounts and prices."""
    source = np.random.default_rng(seed)
    order = np.repeat(np.arange(len(sizes)), sizes)
    amount, price = source.integers(1, 4, len(order)), source.uniform(1, 9, len(order))
    total = np.bincount(order, amount * price, len(sizes))[order]
    return {"order": order.tolist(), "amount": amount.tolist(), "price": price.tolist(), "total": total.tolist()}


def test_larger_orders_are_predicted_by_a_sum(janossy, monkeypatch):  # noqa: F811
    monkeypatch.setattr(candidates, "AUTO", (Candidate("k1", {"width": 16}), Candidate("linear")))
    write("orders.csv", table(np.random.default_rng(0).integers(1, 9, 600), 1))
    write("large.csv", table(np.full(50, 24), 2))
    arguments = ("--set-id", "order", "--target", "total", "--out", "model", "--seed", 0, "--validation", 0.2)
    code, said, _ = janossy("fit", "orders.csv", *arguments)
    sentence = f"Sets of more than 8 elements, which training has none of, are predicted by {NAME}."
    assert code == 0 and sentence in " ".join(said.split())
    _, shown, _ = janossy("inspect", "model")
    assert f"of more than 8 elements: {NAME}" in " ".join(shown.split())
    assert janossy("predict", "model", "large.csv", "--out", "found.csv")[0] == 0
    found, large = csv.read_csv("found.csv")["prediction"].to_numpy(), csv.read_csv("large.csv").to_pandas()
    totals = large.groupby("order")["total"].first().to_numpy()
    assert np.abs(found / totals - 1).mean() < 0.05
    with open("model/report.html") as report:
        text = " ".join(report.read().split())
    assert sentence in text and "predicts the sets that are larger than in training" in text
