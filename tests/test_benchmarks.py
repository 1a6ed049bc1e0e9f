"""The benchmark harness, and that both sides of a row do the same work."""

import json

import polars as pl
import pytest
import torch

from benchmarks import step
from benchmarks.attention import aggregation_row, block_row, nested_row, power_law
from benchmarks.distinct import gradient_row
from benchmarks.graph import cora_like, in_place_row, step_row, whole_row
from benchmarks.harness import Row, measure, record, table
from benchmarks.recurrent import as_packed, as_pyg, power_law_row
from benchmarks.run import BENCHMARKS, RESULTS
from benchmarks.stacks import stack_row
from benchmarks.tables import chosen_row, long_row
from benchmarks.vocabulary import row as vocabulary_row
from janossy import GRU, JanossyPooling, Sampled, TupleMLP, Tuples
from studies.paper.arithmetic.models import MODELS

LARGE = (
    "JanossySAGEConv",
    "2000 sets of power-law sizes",
    "GraphSAGE on a graph",
    "2373 whole neighbourhoods",
    "B=64 n=100 LSTM",
    "silu",
)
LARGE += ("batch 1024", "2 threads", "100000 sets", "15 networks", "1000000 occurrences", "B=32 n=100", "n=20,000")
LARGE += ("n=10,000 k=3 H=32, tolerance 1e-05", "13000 vertices", "all 5040 orders")
LARGE += (
    "n=1,000, against message",
    "n=100,000",
    "n=10,000 over",
    "64 sets of power-law",
    "n=3,000",
    "16 sets of 500",
    "256 sets of 50",
    "over AsGiven, ",
    "over Canonical, sizes 1 to 100",
    "1024 sets of 10, 20 permutations",
    "32 sets of 1000",
    "exact in the last 4",
    "n=10,000 k=3",
    "triples of tanh n=100",
    "log p of 2 sets of 7",
    "B=4 n=7 GRU",
    "B=128 n=10 d=100 H=30 k=2",
)
"""Rows that take seconds. ``make test`` runs the same code on less, but for one that is ``gather`` against itself; silu
needs kernels in float32 that no other test does. Of auto's rows it runs a fifth: the laws compare evaluators too."""

LESS = {
    "a block on 8 sets of power-law sizes": lambda: block_row("8 sets", power_law(8, 50)),
    "a Set Transformer on 8 sets of power-law sizes": lambda: aggregation_row("8 sets", power_law(8, 50)),
    "attention on 4 sets, nested": lambda: nested_row("4 sets", power_law(4, 50)),
    "LSTM on 50 sets, against PyG": lambda: power_law_row(as_pyg, 50),
    "LSTM on 50 sets, against packed sequences": lambda: power_law_row(as_packed, 50),
    "LSTM on 50 sets, gradients by the weights": lambda: power_law_row(as_packed, 50, by_elements=False),
    "a step of GraphSAGE on 16 vertices": lambda: step_row(*cora_like(), sparse=True, num_vertices=16, k=3),
    "100 whole neighbourhoods": lambda: whole_row(100),
    "JanossySAGEConv on 100 vertices": lambda: in_place_row(100),
    "a long table of 100 sets": lambda: long_row(100),
    "a long table of 100 sets, of polars": lambda: long_row(100, pl.from_pandas),
    "all tuples of 300 sets": lambda: gradient_row("k=2", 2, TupleMLP(2, 50, 30), 128, num_sets=300),
    "3 stacked networks": lambda: stack_row("k3-linear", 1, 3),
    "100 sets, chosen": lambda: chosen_row(100),
    "pairs of ids in 1000 sets": lambda: vocabulary_row("k = 2", JanossyPooling(TupleMLP(2, 64, 64), Tuples(2)), 1000),
    "GRU of ids in 1000 sets": lambda: vocabulary_row("GRU", JanossyPooling(GRU(64, 64), Sampled(1, seed=0)), 1000),
}


@pytest.mark.parametrize("name", BENCHMARKS)
@pytest.mark.timeout(1200)
def test_tables_have_todays_rows_whose_sides_agree(name, request):
    """In one test per benchmark: its rows hold up to hundreds of megabytes, which are let go at its end."""
    torch.manual_seed(0)
    rows = list(BENCHMARKS[name].rows())
    data = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    assert [row["name"] for row in data["rows"]] == [row.name for row in rows]
    assert (RESULTS / f"{name}.md").read_text(encoding="utf-8") == table(data)
    for i, row in enumerate(rows):
        is_large = any(part in row.name for part in LARGE) or (name == "auto" and i % 5 > 0)
        if request.config.option.all or not is_large:
            both_sides_agree(row)


@pytest.mark.parametrize("name", step.NAMES)
def test_training_steps_end_at_the_same_weights(name):
    torch.manual_seed(0)
    network = MODELS[name].build(step.TASK, "sum", "uniform")
    theirs = step.authors(MODELS[name], network)
    before = [parameter.clone() for parameter in step.trainable(theirs)]
    ours, reference = step.our_steps(network, 32), step.their_steps(MODELS[name], theirs, 32)
    for _ in range(2):
        torch.testing.assert_close(ours(), reference(), rtol=1e-5, atol=0)
    for got, want, start in zip(step.trainable(network), step.trainable(theirs), before, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-4)
        assert (want - start).abs().max() > 1e-3


@pytest.mark.parametrize("build", LESS.values(), ids=LESS)
def test_both_sides_agree_on_less(build):
    torch.manual_seed(0)
    both_sides_agree(build())


def both_sides_agree(row):
    torch.manual_seed(1)
    ours, reference = row.ours(), row.reference()
    assert ours.shape == reference.shape, row.name
    if not row.agree:  # different work: the same function of sets of other sizes
        assert ours.isfinite().all() and reference.isfinite().all(), row.name
        return
    if "permutation" in row.name:  # each draws its own: the same mean over 128 sets, to a few standard errors
        spread = (ours.std() + reference.std()) / len(ours) ** 0.5
        assert (ours - reference).mean().abs() < 5 * spread, row.name
    else:
        tolerance = {"rtol": 0, "atol": 1e-4} if "tolerance 1e-04" in row.name else {}
        torch.testing.assert_close(ours, reference, **tolerance, msg=lambda told: f"{row.name}: {told}")


def test_sides_take_turns_and_medians_are_reported():
    calls = []
    row = Row("a row", lambda: calls.append("ours"), lambda: calls.append("reference"))
    (timing,) = measure([row], num_pairs=6, seconds=60.0)
    assert timing.num_pairs == 6 and len(calls) == 4 + 2 * 2 * 6
    timed = calls[5::2]  # each call is timed after one of its own side that is not
    assert calls[4::2] == timed
    assert all({timed[i], timed[i + 1]} == {"ours", "reference"} for i in range(0, 12, 2))
    assert timed[0] == timed[3] == "ours"
    assert timing.ours_quartiles[0] <= timing.ours <= timing.ours_quartiles[1]
    data = record([timing], "about this", "the command")
    assert json.loads(json.dumps(data))["machine"]["cores"]
    text = table(data)
    assert "about this" in text and "| a row |" in text and "the command" in text
