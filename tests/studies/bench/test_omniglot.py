"""Omniglot on small archives in its layout: images read, characters numbered, and no character in two parts."""

from io import BytesIO
from zipfile import ZipFile

import numpy as np
import pytest
from PIL import Image, ImageDraw

from studies.bench.data import omniglot
from studies.bench.data.omniglot import ARCHIVES, read_image

SHADES = 12
"""Characters of the test: the i-th has its first i blocks of pixels inked."""


def png(num_blocks):
    image = Image.new("1", (105, 105), 1)
    for i in range(num_blocks):
        ImageDraw.Draw(image).rectangle((5 * i, 0, 5 * i + 4, 4), fill=0)
    file = BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Archives that share one character, as Omniglot's do."""
    (tmp_path / "omniglot").mkdir()
    for archive, characters in zip(ARCHIVES, (range(1, 8), range(7, SHADES + 1)), strict=True):
        with ZipFile(tmp_path / "omniglot" / archive, "w") as files:
            files.writestr(f"__MACOSX/{archive}/._0001_01.png", b"not an image")
            for i in characters:
                for drawer in (1, 2):
                    files.writestr(f"{archive[:-4]}/Made/character{i:02}/{i:04}_{drawer:02}.png", png(i))
    monkeypatch.setattr(omniglot, "NUM_TRAINING", 200)
    monkeypatch.setattr(omniglot, "NUM_TEST", 100)
    return tmp_path


def test_targets_are_numbers_of_characters_and_tests_have_others(folder, monkeypatch):
    monkeypatch.setattr(omniglot, "check_digest", lambda *_: None)
    data = omniglot.omniglot(folder)
    fold, again = data.fold(1), data.fold(1)
    shown = []
    for sample, same in ((fold.train, again.train), (fold.tests["test"](), again.tests["test"]())):
        values = np.stack([column.values for column in sample.sets.elements.values()], 1)
        assert values.shape[1] == 441 and set(np.unique(values)) == {0, 1}
        assert np.array_equal(values, np.stack([column.values for column in same.sets.elements.values()], 1))
        characters = np.split(values.sum(1).astype(int), sample.sets.offsets[1:-1])
        assert [len(set(some)) for some in characters] == sample.targets.tolist()
        assert sample.sets.sizes.min() == 6 and sample.sets.sizes.max() == 10
        shown.append(set(np.concatenate(characters).tolist()))
    assert not shown[0] & shown[1] and shown[0] | shown[1] == set(range(1, SHADES + 1))


def test_blocks_are_averaged():
    image = Image.new("1", (105, 105), 1)
    image.putpixel((7, 104), 0)
    file = BytesIO()
    image.save(file, "PNG")
    ink = read_image(file.getvalue()).reshape(21, 21)
    assert ink[20, 1] == np.float32(1 / 25) and np.count_nonzero(ink) == 1


def test_another_archive_is_refused(folder):
    with pytest.raises(ValueError, match="expects content of SHA-256"):
        omniglot.omniglot(folder)
