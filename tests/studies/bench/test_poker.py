"""The hands of the bench: the rules of their classes, against a plain reading, UCI's labels and known counts."""

from collections import Counter
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.bench.data.poker import PLACE, WORTHS, every_hand, poker, read, sample, worths
from tests.studies.bench.shared import shared

CARDS = [(suit, rank) for suit in range(1, 5) for rank in range(1, 14)]


def worth(hand):
    """Returns the worth of a hand, as the rules say it in words."""
    suits, ranks = zip(*hand, strict=True)
    counts = sorted(Counter(ranks).values(), reverse=True)
    royal = sorted(ranks) == [1, 10, 11, 12, 13]
    straight = counts[0] == 1 and (max(ranks) - min(ranks) == 4 or royal)
    flush = len(set(suits)) == 1
    if straight and flush:
        return 9 if royal else 8
    by_counts = {(4, 1): 7, (3, 2): 6, (3, 1, 1): 3, (2, 2, 1): 2, (2, 1, 1, 1): 1}
    return by_counts.get(tuple(counts), 5 if flush else 4 if straight else 0)


@given(
    st.lists(st.sampled_from(CARDS), min_size=5, max_size=5, unique=True)
    | st.integers(1, 10).map(lambda low: [(low % 4 + 1, (low + i - 1) % 13 + 1) for i in range(5)])
)
def test_hands_are_worth_what_the_rules_say(hand):
    assert worths(np.array([hand, hand[::-1]])).tolist() == [worth(hand)] * 2


def test_each_worth_is_as_often_as_it_is():
    """All hands that hold the ace, king, queen, jack and ten of some suits, and a few more cards, are counted."""
    deck = [[suit, rank] for suit in (1, 2) for rank in (1, 9, 10, 11, 12, 13)]
    found = worths(np.array(list(combinations(deck, 5)), np.int8))
    counts = dict(zip(WORTHS, np.bincount(found, minlength=10).tolist(), strict=True))
    assert counts["royal flush"] == 2 and counts["straight flush"] == 2 and counts["flush"] == 2 * comb(6, 5) - 4
    assert counts["straight"] == 2 * (2**5 - 2)
    assert counts["two pairs"] == comb(6, 2) * 4 * 2 and counts["one pair"] == 6 * comb(5, 3) * 2**3
    assert counts["nothing"] == 4 * (2**5 - 2) and sum(counts.values()) == comb(12, 5)


def test_the_rules_are_those_of_all_of_ucis_labels():
    cards, classes = read(shared(PLACE) / PLACE)
    assert len(cards) == 25_010 and np.array_equal(worths(cards), classes)


@pytest.mark.only_all
def test_every_hand_is_there_once():
    cards = every_hand()
    counts = np.bincount(worths(cards), minlength=10).tolist()
    assert counts == [1_302_540, 1_098_240, 123_552, 54_912, 10_200, 5_108, 3_744, 624, 36, 4]
    numbers = np.sort(cards[..., 0].astype(np.int64) * 13 + cards[..., 1], axis=1) @ 66 ** np.arange(5)
    assert len(np.unique(numbers)) == len(cards) == comb(52, 5)
    first = cards[..., 0, 0]
    assert abs((first == 1).mean() - 0.25) < 0.01  # in random order, not in ascending one


def test_sets_are_the_hands():
    cards, classes = np.array([[[1, 1], [4, 13], [2, 7], [3, 10], [1, 2]]], np.int8), np.array([0], np.int8)
    sets = sample(cards, classes).sets
    assert sets.elements["suit"].decoded().tolist() == [1, 4, 2, 3, 1]
    assert sets.elements["rank"].decoded().tolist() == [1, 13, 7, 10, 2]
    assert sets.offsets.tolist() == [0, 5]


def test_all_folds_learn_from_the_file():
    train = poker(shared(PLACE)).fold(1).train
    assert train.sets.elements["rank"].decoded()[:6].tolist() == [10, 11, 13, 12, 1, 11]
    assert np.bincount(train.targets).tolist() == [12_493, 10_599, 1_206, 513, 93, 54, 36, 6, 5, 5]


def test_a_damaged_file_says_so(tmp_path):
    file = tmp_path / PLACE
    file.parent.mkdir(parents=True)
    file.write_text("1,10,1,11,1,13,1,12,1,1,9\n")
    with pytest.raises(ValueError, match=r"expects content of SHA-256 .* remove it, and it is downloaded again"):
        poker(tmp_path)
