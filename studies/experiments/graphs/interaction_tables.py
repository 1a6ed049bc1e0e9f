"""The tables of interactions.md."""

from collections.abc import Iterator
from statistics import mean, stdev

from studies.experiments import markdown

ROWS = {
    "0": "none: the vertex alone",
    "1": "order 1: single neighbours",
    "2": "up to order 2: pairs",
    "3": "up to order 3: triples",
    "GRU": "any order: GRU",
    "MLP of mean": "any order: MLP of the mean",
    "truth": "*the planted log-odds*",
}

ABOUT = """\
# Interactions among neighbours

How much of what a vertex's neighbours tell of its label needs several of them at once?

A network's logits are those of the vertex itself plus f̄ of its neighbours, of up to 8 drawn anew at each reading. f̄ is
a mean over single neighbours, over pairs or over triples, hence of order 1, 2 or 3 in them and no more; or a GRU's mean
last state, or an MLP of a mean, which are of any order. All else is the same: width 64, the loss, the steps, the choice
of the weights by the validation vertices' cross entropy. A neighbour is its features, the mean of its own neighbours'
(so that two hops are read), and the vertex whose neighbour it is. Every network knows how many neighbours a vertex has.
A test vertex's logits are the mean over 10 readings, which leaves orders as they are.

*Planted* labels are drawn on the same edges: their log-odds are 10 × the mean over sets of k neighbours of the product
of their signs ±1, which is of order k and no other. A sign is a coin's and the only feature; or it is hidden, the side
of the median on which the vertex lies in the words' first principal component, and the network reads the words as it
does for real labels. They show whether the same networks on the same edges would find interactions that are there.

The schedules, one for all networks of a task, were taken after a few trials on single seeds, which looked at test
vertices too. Weights are early where the labels are few; on PPI-GO the loss is still falling at the last step.
"""

SCORES = """\
## What each order is worth on test vertices

Means (standard deviations over seeds) of micro-F1, at ½ on PPI-GO, and of cross entropy; and the differences from order
1, paired by seed, ± a standard error. A seed is a new split of Cora and PubMed and new planted labels; of PPI-GO only
new weights. Kept: the step whose weights are, on average.
"""

SHARES = """\
## What orders the two flexible networks have learnt

Shares in % of the variance of the logits, less their mean over classes where one class is chosen, by
`interaction_order`: sets of 4 elements beside a fixed test vertex, 40 vertices together; mean (standard deviation) over
seeds. The elements are drawn from the vertex's own neighbours, or from all vertices, which are unlike any
neighbourhood. Estimates can lie a little outside 0 … 100. A product of signs has a part of lower order where the signs
that are drawn from do not sum to zero, as among a few neighbours: hence the rows of the planted log-odds themselves.
"""


def table(cells: list[dict]) -> str:
    """Returns the page: the scores of each task and network, and the orders of the flexible networks."""
    tasks = list(dict.fromkeys(cell["task"] for cell in cells))
    header = ("task", "network", "micro-F1", "− order 1", "cross entropy", "− order 1", "kept", "seeds")
    rows = (row for task in tasks for row in _scores(cells, task))
    scores = markdown.table(header, rows, "|" + " --- |" * len(header))
    header = ("task", "network", "elements", "order 1", "2", "3", "4")
    rows = (row for task in tasks for row in _shares(cells, task))
    shares = markdown.table(header, rows, "|" + " --- |" * len(header))
    return "\n".join([ABOUT, SCORES, scores, SHARES, shares])


def of(cells: list[dict], task: str, model: str) -> dict[int, dict]:
    """Returns the runs by seed."""
    return {cell["seed"]: cell for cell in cells if (cell["task"], cell["model"]) == (task, model)}


def _scores(cells: list[dict], task: str) -> Iterator[list[str]]:
    single = of(cells, task, "1")
    for model, name in ROWS.items():
        runs = of(cells, task, model)
        if not runs:
            continue
        row = [task, name]
        for score in ("test", "cross_entropy"):
            row.append(_spread([run[score] for run in runs.values()], 4))
            seeds = runs.keys() & single.keys()
            row.append("" if model == "1" else gain([runs[seed][score] - single[seed][score] for seed in seeds]))
        kept = "" if model == "truth" else _kept(list(runs.values()))
        yield [*row, kept, str(len(runs))]


def _kept(runs: list[dict]) -> str:
    return f"{mean(run['kept'] for run in runs):.0f} of {runs[0]['schedule']['num_steps']}"


def gain(differences: list[float]) -> str:
    """Returns the mean ± standard error as text."""
    if len(differences) < 2:
        return "".join(f"{value:+.4f}" for value in differences)
    return f"{mean(differences):+.4f} ± {stdev(differences) / len(differences) ** 0.5:.4f}"


def _shares(cells: list[dict], task: str) -> Iterator[list[str]]:
    for model, name in ROWS.items():
        runs = [run for run in of(cells, task, model).values() if "own" in run]
        for key, elements in {"own": "own neighbours", "any": "all vertices"}.items() if runs else ():
            shares = [[100 * share for share in (*run[key], 1 - sum(run[key]))] for run in runs]
            yield [task, name, elements, *(_spread(list(column), 1) for column in zip(*shares, strict=True))]


def _spread(values: list[float], digits: int) -> str:
    return f"{mean(values):.{digits}f}" + (f" ({stdev(values):.{digits}f})" if len(values) > 1 else "")
