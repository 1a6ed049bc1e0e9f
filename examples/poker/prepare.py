"""Poker hands as a table: a row a card, of the hand it belongs to.

    python prepare.py                                    # UCI's 25,010 training hands, downloaded, as hands.parquet
    python prepare.py poker-hand-training-true.data      # the same from the file
    python prepare.py --deal 10000 --out new.parquet     # hands dealt at random, which no model has seen

UCI's Poker Hand (Cattral and Oppacher, 2002, https://doi.org/10.24432/C5KW38, CC BY 4.0) has a hand in each row: suit
and rank of five cards, and what the hand is worth.
"""

import argparse
from collections import Counter
from pathlib import Path
from urllib.request import urlretrieve

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/poker-hand/poker-hand-training-true.data"
SUITS = ("hearts", "spades", "diamonds", "clubs")
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


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """UCI's file: cards (B, 5, 2), of suits 1 to 4 and ranks 1 to 13, and the worths (B,)."""
    lines = [line for line in path.read_text().splitlines() if line[:1].isdigit()]
    rows = np.array([line.split(",") for line in lines], dtype=np.int64)
    return rows[:, :10].reshape(-1, 5, 2), rows[:, 10]


def deal(num: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Hands dealt at random, and their worths by the rules."""
    deck = np.random.default_rng(seed).permuted(np.tile(np.arange(52), (num, 1)), axis=1)[:, :5]
    cards = np.stack((deck // 13 + 1, deck % 13 + 1), axis=2)
    return cards, np.array([worth(hand) for hand in cards.tolist()])


def worth(hand: list[list[int]]) -> int:
    """What a hand of five [suit, rank] is worth, 0 to 9, as ``WORTHS`` are called. An ace, rank 1, is low or high."""
    suits, ranks = zip(*hand, strict=True)
    counts = sorted(Counter(ranks).values(), reverse=True)
    royal = sorted(ranks) == [1, 10, 11, 12, 13]
    straight = counts[0] == 1 and (max(ranks) - min(ranks) == 4 or royal)
    flush = len(set(suits)) == 1
    if straight and flush:
        return 9 if royal else 8
    by_counts = {(4, 1): 7, (3, 2): 6, (3, 1, 1): 3, (2, 2, 1): 2, (2, 1, 1, 1): 1}
    return by_counts.get(tuple(counts), 5 if flush else 4 if straight else 0)


def table(cards: np.ndarray, worths: np.ndarray) -> pa.Table:
    """One row a card: hand, suit, rank, and the worth of the whole hand."""
    num, size, _ = cards.shape
    return pa.table(
        {
            "hand": np.repeat(np.arange(num), size),
            "suit": np.array(SUITS)[cards[..., 0].ravel() - 1],
            "rank": cards[..., 1].ravel(),
            "worth": np.repeat(np.array(WORTHS)[worths], size),
        }
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, help="UCI's file; downloaded if not given")
    parser.add_argument("--deal", type=int, help="deal so many hands instead")
    parser.add_argument("--seed", type=int, default=0, help="of the deal")
    parser.add_argument("--out", type=Path, default=Path("hands.parquet"), help="ends in .parquet or .csv")
    options = parser.parse_args(arguments)
    if options.deal:
        hands = deal(options.deal, options.seed)
    else:
        hands = read(options.file or Path(urlretrieve(URL, "poker-hand-training-true.data")[0]))
    (csv.write_csv if options.out.suffix == ".csv" else parquet.write_table)(table(*hands), options.out)
    print(f"wrote {len(hands[0]):,} hands to {options.out}")


if __name__ == "__main__":
    main()
