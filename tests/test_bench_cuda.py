"""The benchmarks for a GPU, without one: both sides of each case agree, and the roofline counts what is computed."""

import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import auto, cuda
from benchmarks.cuda import Case, Work, cases, of_lstm_cells, of_tuples, products, row, table
from benchmarks.rates import fit, measured
from benchmarks.run import main
from janossy import LSTM
from janossy.evaluate.cost import Cost, Rates
from tests.standin import A100

NAMES = ["fused pairs", "fused triples", "deep sets", "spectral", "packed", "GraphSAGE", "a stack"]


@pytest.fixture(scope="module")
def small():
    torch.manual_seed(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", lambda f: f)  # tests/test_compile.py compiles
        return list(cases("cpu", small=True))


@pytest.mark.parametrize("i", range(len(NAMES)), ids=NAMES)
def test_both_sides_agree(small, i):
    case = small[i]
    ours = case.ours()
    assert ours.isfinite().all() and case.work.seconds(A100) > 0
    for other in case.others.values():
        if case.same:
            torch.testing.assert_close(ours, other(), rtol=1e-4, atol=1e-4)
        else:
            assert other().shape == ours.shape


def counted(call) -> float:
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def test_products_are_those_that_torch_counts():
    f, x = LSTM(5, 3, unrolled=True), torch.randn(7, 4, 5, requires_grad=True)
    least = of_lstm_cells(7 * 4, 5, 3).flops
    first = 7 * 12 * 3 * 2 * 2  # the first step multiplies a state of zeros, whose gradients nobody asks for
    assert counted(lambda: f(x).sum().backward()) == pytest.approx(least, abs=first)
    linear, y = torch.nn.Linear(6, 4, bias=False), torch.randn(9, 6, requires_grad=True)
    assert counted(lambda: linear(y).sum().backward()) == products(9, 6, 4).flops


def test_tuples_are_counted_one_by_one():
    work, by_products = of_tuples(2, 5, 3, 4, 2), products(2 * 5, 3, 2 * 4)
    assert work.specials == 2 * (2 * 5 * 4 * 4)  # an activation and its slope, of 20 pairs a set and 4 units
    assert work.flops == by_products.flops + 2 * (2 * 5 * 4 * 4)
    assert work.bytes == by_products.bytes + 4 * 2 * (2 * 5 * 2 * 4)
    assert of_tuples(2, 5, 3, 4, 2, increasing=True).specials == work.specials / 2


def test_the_table_says_what_bounds_a_case():
    work = Work(flops=1.0, bytes=A100.bytes_per_second / 1000, specials=A100.specials_per_second / 2000)
    case = Case("a case", work, lambda: None, {"theirs": lambda: None})
    found = row(case, A100, {"ours": 4.0, "theirs": 8.0})
    assert found["roofline"] == pytest.approx(1.0) and found["share"] == pytest.approx(0.25)
    assert found["bound"] == "bytes"
    data = {"gpu": str(A100), "versions": {"torch": "2"}, "finished": "2026-01-01T00", "rows": [found]}
    assert "| a case | 4.000 | theirs 8.000 | 1.0000 | 25% | bytes |" in table(data)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks.cuda"])
    with pytest.raises(SystemExit, match=r"expects a GPU that torch can use; got a machine without one.*docs/gpu.md"):
        cuda.main()


def test_rates_are_found_again():
    """Costs are made in which every part takes its share of the time."""
    true = Rates(flops_per_second=2e12, bytes_per_second=5e11, activations_per_second=3e11, overhead=2e-5, launch=4e-6)
    source = torch.Generator().manual_seed(0)
    costs = []
    for _ in range(40):
        flops, num_bytes, activations, launches = (10 ** (3 * torch.rand(4, generator=source))).tolist()
        costs.append(Cost(flops * 1e8, num_bytes * 1e7, activations * 1e7, true, launches=launches))
    fitted, off = fit(costs, [cost.seconds for cost in costs])
    assert off == pytest.approx(1)
    for rate, value in vars(true).items():
        assert getattr(fitted, rate) == pytest.approx(value, rel=1e-6)


def test_every_evaluator_is_fitted_to_the_cases_that_it_takes(monkeypatch):
    monkeypatch.setattr(auto, "GRID", auto.GRID[:2] + auto.GRID[-1:])
    monkeypatch.setattr(auto, "RECURRENT", auto.RECURRENT[:1])
    found = measured("cpu", lambda case, evaluator: 1.0)
    assert {"fused", "gather", "projected", "packed"} <= set(found)
    assert len(found["gather"][0]) == 4 and len(found["packed"][0]) == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    ("arguments", "match"),
    [(["auto"], "expects a GPU that torch can use; got a machine without one"), (["fused"], "2")],
    ids=["no GPU", "another benchmark"],
)
def test_rates_without_a_gpu(monkeypatch, arguments, match):
    monkeypatch.setattr(sys, "argv", ["benchmarks.run", *arguments, "--device", "cuda"])
    with pytest.raises(SystemExit, match=match):
        main()
