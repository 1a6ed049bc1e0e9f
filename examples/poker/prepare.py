"""Poker hands as a table with one row per card.

    python prepare.py                                    # UCI's 25,010 training hands, downloaded, as hands.parquet
    python prepare.py poker-hand-training-true.data      # the same from the file
    python prepare.py --deal 10000 --out new.parquet     # hands dealt at random, which no model has seen

UCI's Poker Hand (Cattral and Oppacher, 2002, https://doi.org/10.24432/C5KW38, CC BY 4.0) has one hand per row: suit and
rank of five cards, and the worth of the hand.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the root of the clone, as studies are not installed

from studies.bench.data.poker import PLACE, URL, WORTHS, read, worths
from studies.bench.files import file_at

SUITS = ("hearts", "spades", "diamonds", "clubs")


def deal(num: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns random hands, and their worths by the rules."""
    deck = np.random.default_rng(seed).permuted(np.tile(np.arange(52), (num, 1)), axis=1)[:, :5]
    cards = np.stack((deck // 13 + 1, deck % 13 + 1), axis=2)
    return cards, worths(cards)


def table(cards: np.ndarray, classes: np.ndarray) -> pa.Table:
    """Returns one row per card: hand, suit, rank, and the worth of the whole hand."""
    num, size, _ = cards.shape
    return pa.table(
        {
            "hand": np.repeat(np.arange(num), size),
            "suit": np.array(SUITS)[cards[..., 0].ravel() - 1],
            "rank": cards[..., 1].ravel(),
            "worth": np.repeat(np.array(WORTHS)[classes], size),
        }
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, help="UCI's file; downloaded if not given")
    parser.add_argument("--deal", type=int, help="deal so many hands instead")
    parser.add_argument("--seed", type=int, default=0, help="of the deal")
    parser.add_argument("--out", type=Path, default=Path("hands.parquet"), help="ends in .parquet or .csv")
    options = parser.parse_args(arguments)
    try:
        hands = deal(options.deal, options.seed) if options.deal else read(options.file or file_at(None, PLACE, URL))
    except OSError as error:
        parser.exit(1, f"UCI's hands cannot be read ({error}). Name a file that holds them, or --deal hands.\n")
    (csv.write_csv if options.out.suffix == ".csv" else parquet.write_table)(table(*hands), options.out)
    print(f"wrote {len(hands[0]):,} hands to {options.out}")


if __name__ == "__main__":
    main()
