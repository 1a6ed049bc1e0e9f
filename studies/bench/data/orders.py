"""Synthetic shop orders by a known rule: the kinds of items that occur together decide on a return.

Items have one of 30 kinds, and a price. A single item says little. Two facts raise the probability of a return: pairs
of items that clash, and price differences between items of one kind.

The rule was fixed before anything was trained on it. ``bayes_orders`` gives its probability, from which the best AUC of
any model follows.
"""

from pathlib import Path

import torch
from torch import Tensor

from janossy import Ragged
from janossy.tables import Column, SetTable
from studies.bench.data_set import DataSet, Fold, Sample

NUM_KINDS = 30
MAX_ITEMS = 20
NUM_TRAINING, NUM_TEST = 10_000, 5_000


def _clashes() -> Tensor:
    """Returns how pairs of kinds interact, (30, 30): about one in eight clashes (1), and one in eight suits (−1)."""
    source = torch.Generator().manual_seed(2019)
    draws = torch.rand(NUM_KINDS, NUM_KINDS, generator=source).triu(1)
    clashes = (draws > 0.875).float() - ((draws > 0) & (draws < 0.125)).float()
    return clashes + clashes.T


CLASHES = _clashes()


def orders(data: Path | None = None) -> DataSet:
    """Returns 10,000 orders for training and 5,000 for the test, different ones per fold. No files are needed."""
    return DataSet(
        name="orders",
        about="A set is an order of 1 to 20 items, each of one of 30 kinds at a price. It is returned or kept, by a "
        "rule of pairs that clash (made).",
        task="classification",
        scores=("AUC", "accuracy"),
        num_folds=3,
        fold=lambda number: Fold(sample(NUM_TRAINING, 3 * number), {"test": lambda: sample(NUM_TEST, 3 * number + 2)}),
        published={"the rule itself (Bayes)": "AUC 0.957"},
    )


def draw_orders(num_sets: int, seed: int) -> tuple[Ragged, Tensor]:
    """Samples orders of 1 to 20 items, 7 on average, in the columns kind (1 … 30) and log price, and their returns."""
    source = torch.Generator().manual_seed(seed)
    sizes = torch.poisson(torch.full((num_sets,), 6.0), generator=source).long().clamp(max=MAX_ITEMS - 1) + 1
    popularity = 1 / torch.arange(3.0, NUM_KINDS + 3)
    kinds = torch.multinomial(popularity, int(sizes.sum()), replacement=True, generator=source)
    usual = torch.randn(NUM_KINDS, generator=torch.Generator().manual_seed(11))
    prices = usual[kinds] + 0.7 * torch.randn(len(kinds), generator=source)
    sets = Ragged.from_sizes(torch.stack((kinds + 1.0, prices), dim=1), sizes.tolist())
    return sets, (torch.rand(num_sets, generator=source) < bayes_orders(sets)).float()


def bayes_orders(sets: Ragged) -> Tensor:
    """Returns σ(4·Σ over pairs of (clash + 1.5·|difference of log price| if of one kind) / √n − 1.2)."""
    scores = []
    for items in sets:
        kinds, prices = items[:, 0].long() - 1, items[:, 1]
        same = kinds[:, None] == kinds
        pairs = CLASHES[kinds[:, None], kinds] + 1.5 * same * (prices[:, None] - prices).abs()
        scores.append(pairs.triu(1).sum() / len(items) ** 0.5)
    return torch.sigmoid(4 * torch.stack(scores) - 1.2)


def sample(num_sets: int, seed: int) -> Sample:
    """Returns sampled orders as sets of items, with 1 for a return."""
    sets, returned = draw_orders(num_sets, seed)
    columns = {
        "kind": Column("categorical", sets.values[:, 0].long().numpy() - 1, tuple(range(1, NUM_KINDS + 1))),
        "log_price": Column("numeric", sets.values[:, 1].numpy()),
    }
    return Sample(SetTable(sets.offsets.numpy(), columns, {}), returned.long().numpy())
