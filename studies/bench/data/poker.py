"""Poker hands: the worth of five cards, by rules on pairs, straights and flushes that the model is not told."""

from itertools import chain, combinations
from math import comb
from pathlib import Path
from typing import cast

import numpy as np

from janossy.tables import Column, SetTable
from studies.bench.data_set import DataSet, Fold, Sample
from studies.bench.files import check_digest, file_at

PLACE = "poker_hand/poker-hand-training-true.data"
URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/poker/poker-hand-training-true.data"
DIGEST = "7e7c4572de54fbf7f2b040f09e930a3b4031d0484eee735f3e7422fc95995c7a"

WORTHS = (
    "nothing",
    "one pair",
    "two pairs",
    "three of a kind",
    "straight",
    "flush",
    "full house",
    "four of a kind",
    "straight flush",
    "royal flush",
)
"""The names of the worths 0 to 9."""


def poker(data: Path | None = None) -> DataSet:
    """Returns UCI's training hands, with all possible hands as the test.

    Cards are in the order of the file in training, and in random order in the test. Models of tables may therefore read
    them too.
    """
    file = file_at(data, PLACE, URL)
    cards, classes = read(file)
    check_digest(file, (cards, classes), DIGEST)
    train = sample(cards, classes)
    return DataSet(
        name="poker",
        about="A set is a hand of five cards, suit and rank; its class is what it is worth, 0 to 9 (UCI Poker Hand, "
        "Cattral and Oppacher, 2002, CC BY 4.0). Tested on all 2,598,960 hands, of which training had under 1 %.",
        task="classification",
        scores=("accuracy", "balanced accuracy", "recall of 5"),
        num_folds=3,
        fold=lambda number: Fold(train, {"test": _every_hand}),
        published={
            "TabNet (raw columns, one million test hands)": "accuracy 0.992",
            "XGBoost (the same)": "accuracy 0.711",
            "LightGBM (the same)": "accuracy 0.700",
            "CatBoost (the same)": "accuracy 0.666",
        },
    )


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Reads UCI's file: cards (B, 5, 2), with suits 1 to 4 and ranks 1 to 13, and worths (B,), int8."""
    with path.open(encoding="ascii") as lines:
        rows = np.loadtxt((line for line in lines if line[:1].isdigit()), np.int8, delimiter=",", ndmin=2)
    return rows[:, :10].reshape(-1, 5, 2), rows[:, 10]


def worths(cards: np.ndarray) -> np.ndarray:
    """Returns the worths of hands (B, 5, 2), (B,) int8, as numbered in ``WORTHS``. An ace, rank 1, is low or high."""
    suits, ranks = cards[..., 0], np.sort(cards[..., 1], axis=1)
    equal_pairs = sum((ranks[:, i] == ranks[:, j]).astype(np.int8) for i, j in combinations(range(5), 2))
    found = np.array([0, 1, 2, 3, 6, 0, 7], np.int8)[equal_pairs]
    royal = (ranks == [1, 10, 11, 12, 13]).all(axis=1)
    straight = royal | ((equal_pairs == 0) & (ranks[:, 4] - ranks[:, 0] == 4))
    flush = (suits == suits[:, :1]).all(axis=1)
    found[straight] = 4
    found[flush] = 5
    found[straight & flush] = 8
    found[royal & flush] = 9
    return cast(np.ndarray, found)


def every_hand() -> np.ndarray:
    """Returns all sets of five of the 52 cards, (2598960, 5, 2) int8, each in a fixed random order.

    In ascending order, a model of raw columns would read hands in an order that no deal has.
    """
    num = comb(52, 5)
    places = np.fromiter(chain.from_iterable(combinations(range(52), 5)), np.int8, 5 * num).reshape(num, 5)
    places = np.random.default_rng(0).permuted(places, axis=1)
    return np.stack((places // 13 + 1, places % 13 + 1), axis=2)


def sample(cards: np.ndarray, classes: np.ndarray) -> Sample:
    """Returns hands (B, 5, 2) as sets of cards."""
    columns = {
        name: Column("categorical", cards[..., i].ravel() - 1, tuple(range(1, most + 1)))
        for i, (name, most) in enumerate({"suit": 4, "rank": 13}.items())
    }
    return Sample(SetTable(np.arange(len(cards) + 1) * 5, columns, {}), classes.astype(np.int64))


def _every_hand() -> Sample:
    cards = every_hand()
    return sample(cards, worths(cards))
