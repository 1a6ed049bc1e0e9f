"""Writes the saved models of version 1 in this folder, with their predictions on fixed inputs.

They were written at commit 315b730, by the last janossy that writes version 1. Run this file there, not with a later
one.

    python -m tests.saving.v1.make
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from janossy import (
    GRU,
    LSTM,
    AllPermutations,
    BalancedTree,
    Canonical,
    Combinations,
    Distinct,
    ImportanceSampled,
    JanossyNetwork,
    JanossyPooling,
    MinGRU,
    Ragged,
    Sampled,
    Stack,
    TupleMLP,
    TupleProduct,
    Tuples,
    estimators,
    saving,
)
from janossy.functions import RNN, FeaturedMLP, GatedAttention, MonotoneLattice, TupleFeatures
from janossy.nn import ColumnEmbedding, PooledNorm, Readout
from janossy.orderings import Learned, OrderWeights

HERE = Path(__file__).parent
SIZES = (3, 1, 4)
SEED = 5


def pooled(f: nn.Module, orderings: Any, h: nn.Module | None = None, rho: nn.Module | None = None, **options: Any):
    return JanossyNetwork(h, JanossyPooling(f, orderings, **options), rho)


def networks() -> dict[str, JanossyNetwork]:
    weighed = Canonical(key=(nn.Linear(3, 1), 0), order_weights=OrderWeights(2))
    nn.init.normal_(weighed.order_weights.logits)
    learned = Learned(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), num=3)
    features = TupleFeatures(3, 3, differences=[0], products=[1], distances=[[0, 2]], units={2: 2.0}, periods={0: 6.0})
    embedding, context = ColumnEmbedding([4, 3], 1, scaled=True), ColumnEmbedding([3], 2, embedding_features=2)
    members = [pooled(TupleMLP(2, 3, 4), Tuples(2), rho=nn.Linear(4, 1)) for _ in range(2)]
    return {
        "all-permutations": pooled(RNN(3, 4), AllPermutations(), rho=nn.Linear(4, 1)),
        "balanced-tree": pooled(BalancedTree(3, 4), Canonical(key=1)),
        "canonical": pooled(GRU(3, 4, 2, bidirectional=True), weighed, nn.Sequential(nn.Linear(3, 3), nn.Tanh())),
        "columns": pooled(
            TupleMLP(2, embedding.out_features + 1, 5),
            Tuples(2),
            embedding,
            Readout(5, 4, 2, embed=context, activation="gelu"),
            append_size="log",
            largest_size=1,
            orderings_train=Distinct(3, k=2),
        ),
        "combinations": pooled(TupleMLP(2, 3, (5, 4), 2, "gelu"), Combinations(2)),
        "distinct": pooled(TupleMLP(2, 3, 4), Distinct(3, k=2)),
        "featured": pooled(FeaturedMLP(3, 3, 6, features), Tuples(3), evaluate="gather"),
        "gated-attention": pooled(
            GatedAttention(GRU(3, 4), 4, num_heads=2, hidden_features=4), Sampled(2), reduce="sum"
        ),
        "importance": pooled(LSTM(3, 4), ImportanceSampled(3, weights="norm")),
        "lattice": pooled(MonotoneLattice(3, 2, [0]), Tuples(1)),
        "learned": pooled(GRU(3, 4), learned),
        "min-gru": pooled(MinGRU(3, 4), Canonical(), rho=nn.Sequential(PooledNorm(4), nn.Linear(4, 2))),
        "product": pooled(TupleProduct(2, 3, 4, 2), Tuples(2)),
        "product-of-own": pooled(TupleProduct(2, 3, 4, g=[nn.Linear(3, 4), nn.Linear(3, 4)]), Tuples(2)),
        "readout": pooled(TupleMLP(1, 3, 4), Tuples(1), rho=Readout(4, (5, 3), 2, first=PooledNorm(4), dropout=0.2)),
        "sampled": pooled(GRU(3, 4), Sampled(3, seed=7), rho=nn.Linear(4, 2)),
        "sampled-tuples": pooled(TupleMLP(2, 3, 4), Sampled(3, k=2)),
        "stacked": Stack(members).unstack()[1],
    }


def inputs() -> dict[str, Any]:
    source = np.random.default_rng(0)
    values = source.normal(size=(sum(SIZES), 3)).round(3)
    codes = np.stack((source.integers(0, 4, sum(SIZES)), source.integers(0, 3, sum(SIZES)), values[:, 0]), 1)
    context = np.concatenate((source.integers(0, 3, (len(SIZES), 1)), source.normal(size=(len(SIZES), 2)).round(3)), 1)
    return {"values": values.tolist(), "codes": codes.tolist(), "context": context.tolist()}


def outputs(name: str, network: JanossyNetwork, given: dict[str, Any]) -> list[Any]:
    """Returns the output of one forward pass in evaluation mode, with these random orders."""
    columns = name == "columns"
    sets = Ragged.from_sizes(torch.tensor(given["codes" if columns else "values"]), list(SIZES))
    generator = None if name == "sampled" else torch.Generator().manual_seed(SEED)  # "sampled" has its own seed
    with torch.no_grad():
        context = torch.tensor(given["context"]) if columns else None
        return network.eval()(sets, context=context, generator=generator).double().tolist()


def bags(num: int, seed: int = 0) -> list[list[list[float]]]:
    source = np.random.default_rng(seed)
    return [source.normal(size=(size, 2)).round(3).tolist() for size in source.integers(1, 5, num)]


def arrays(sets: list[list[list[float]]]) -> list[np.ndarray]:
    return [np.array(each) for each in sets]


def table(sets: list[list[list[float]]]) -> dict[str, list[Any]]:
    """Returns sets with names, numbers, and a number per set, as columns of lists."""
    return {
        "kind": [["abc"[int(abs(x[0]) * 10) % 3] for x in each] for each in sets],
        "x": [[x[1] for x in each] for each in sets],
        "height": [each[0][0] for each in sets],
    }


def estimators_fitted() -> dict[str, Any]:
    import pandas as pd  # noqa: PLC0415

    sets = arrays(bags(40))
    sums = np.array([each.sum() for each in sets])
    labels = np.where(sums > 0, "yes", "no")
    quick = {"max_epochs": 3, "random_state": 0}
    two = [{"strategy": "k1", "width": 4}, {"strategy": "k2", "width": 4}]
    return {
        "classifier": estimators.SetClassifier(two, **quick).fit(sets, labels),
        "classifier-of-codes": estimators.SetClassifier({"strategy": "k1", "width": 4}, **quick).fit(
            pd.DataFrame(table(bags(40))), np.where(sums > 1, 2, np.where(sums > 0, 1, 0))
        ),
        "regressor": estimators.SetRegressor({"strategy": "k2+features", "width": 4}, **quick).fit(
            pd.DataFrame(table(bags(40))), np.stack((sums, 3 - sums), 1)
        ),
        "regressor-of-orders": estimators.SetRegressor({"strategy": "gru", "width": 4}, **quick).fit(sets, sums),
    }


def predictions(name: str, model: Any, sets: list[list[list[float]]]) -> list[Any]:
    import pandas as pd  # noqa: PLC0415

    given = pd.DataFrame(table(sets)) if model.__dict__.get("feature_names_in_") is not None else arrays(sets)
    found = model.predict_proba(given) if name.startswith("classifier") else model.predict(given)
    return np.asarray(found, dtype=np.float64).tolist()


def place(name: str) -> str:
    return name if name in ("sampled", "classifier") else f"{name}.zip"  # two models are folders


def main() -> None:
    torch.manual_seed(0)
    given = inputs()
    expected: dict[str, Any] = {"inputs": given, "networks": {}, "estimators": {}, "sets": bags(6, seed=1)}
    for name, network in networks().items():
        path = saving.save(network, HERE / "networks" / place(name), overwrite=True)
        expected["networks"][name] = outputs(name, saving.load(path), given)
    for name, model in estimators_fitted().items():
        path = estimators.save(model, HERE / "estimators" / place(name), overwrite=True)
        expected["estimators"][name] = predictions(name, estimators.load(path), expected["sets"])
    (HERE / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
