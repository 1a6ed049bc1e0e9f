"""Handwritten characters of Omniglot's two small background sets (Lake et al., 2015, MIT): how many differ."""

from functools import partial
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from PIL import Image
from sklearn.model_selection import train_test_split

from janossy.tables import Column, SetTable
from janossy.tables.table import offsets_of
from studies.bench.data_set import DataSet, Fold, Sample
from studies.bench.files import check_digest, file_at

ARCHIVES = ("images_background_small1.zip", "images_background_small2.zip")
URL = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/"
DIGEST = "3f3c7fa516813edd7b92d48a5dbda3b79ed93fa0c91fcd3abe6a6c0d00c2f3a7"

BLOCK = 5
"""The side of the blocks of pixels that are averaged: images of 105 × 105 pixels become 21 × 21."""

FEWEST, MOST = 6, 10
"""The size of a set (Lee et al., 2019, Section 5.2)."""

NUM_TRAINING, NUM_TEST = 10_000, 2_000
TEST_CHARACTERS = 0.3


def omniglot(data: Path | None = None) -> DataSet:
    """Returns the task of the number of different characters in a set, tested on other characters.

    Raises: OSError if a file can neither be found nor downloaded; ValueError if it is damaged.
    """
    images, characters = read([file_at(data, f"omniglot/{name}", URL + name) for name in ARCHIVES])
    of_character = [np.flatnonzero(characters == i) for i in range(characters.max() + 1)]

    def sample(allowed: np.ndarray, num_sets: int, seed: int) -> Sample:
        """Returns sets of images of the characters ``allowed``, with the number of different ones."""
        source = np.random.default_rng(seed)
        sizes = source.integers(FEWEST, MOST, num_sets, endpoint=True)
        drawn = [draw_characters(allowed, size, source) for size in sizes]
        chosen = [source.choice(of_character[i]) for i in np.concatenate(drawn)]
        columns = {f"pixel_{i}": Column("numeric", values) for i, values in enumerate(images[chosen].T.copy())}
        return Sample(SetTable(offsets_of(sizes), columns, {}), np.array([float(len(set(some))) for some in drawn]))

    def fold(number: int) -> Fold:
        train, test = train_test_split(np.arange(len(of_character)), test_size=TEST_CHARACTERS, random_state=number)
        return Fold(sample(train, NUM_TRAINING, 2 * number), {"test": partial(sample, test, NUM_TEST, 2 * number + 1)})

    return DataSet(
        name="omniglot",
        about=f"A set is {FEWEST} to {MOST} images of handwritten characters, averaged to 21 × 21 pixels (Omniglot's "
        "two small background sets, MIT); the target is how many different characters there are. Tested on other "
        "characters.",
        task="regression",
        scores=("RMSE", "MAE", "accuracy of rounded"),
        num_folds=3,
        fold=fold,
        published={"Set Transformer, convolutions, all of Omniglot (Lee et al., 2019)": "accuracy 0.604"},
    )


def draw_characters(allowed: np.ndarray, size: int, source: np.random.Generator) -> np.ndarray:
    """Returns the characters of a set: 1 to ``size`` different ones, each number equally frequent."""
    kinds = source.permutation(allowed)[: source.integers(1, size, endpoint=True)]
    return np.concatenate((kinds, source.choice(kinds, size - len(kinds))))


def read(archives: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ink of images (N, 441) in 0 to 1, float32, and the number of each one's character, (N,).

    A character that is in both archives has one number.
    """
    drawn: dict[str, np.ndarray] = {}
    for archive in archives:
        with ZipFile(archive) as files:
            for name in files.namelist():
                _, _, place = name.partition("/")
                if place.endswith(".png") and not name.startswith("__MACOSX"):
                    drawn[place] = read_image(files.read(name))
    places = sorted(drawn)
    _, characters = np.unique([place.rpartition("/")[0] for place in places], return_inverse=True)
    images = np.stack([drawn[place] for place in places])
    check_digest(archives[0].parent, (images, characters.astype(np.int64)), DIGEST)
    return images, characters


def read_image(content: bytes) -> np.ndarray:
    """Returns the ink of a PNG of 105 × 105 pixels, averaged over blocks: (441,), float32."""
    with Image.open(BytesIO(content)) as image:
        ink = 1 - np.asarray(image.convert("1"), np.float32)
    side = len(ink) // BLOCK
    blocks: np.ndarray = ink.reshape(side, BLOCK, side, BLOCK).mean((1, 3))
    return blocks.ravel()
