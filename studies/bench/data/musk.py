"""Musk 1 and Musk 2: molecules as sets of their conformations (UCI, CC BY 4.0)."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from subprocess import CalledProcessError, run
from zipfile import ZipFile

import numpy as np

from studies.bench.data.bags import read_bags, sample_of_bags
from studies.bench.data_set import DataSet
from studies.bench.files import check_digest, file_at
from studies.bench.folds import cross_validation

URLS = {
    "musk1": "https://archive.ics.uci.edu/static/public/74/musk+version+1.zip",
    "musk2": "https://archive.ics.uci.edu/static/public/75/musk+version+2.zip",
}
DIGESTS = {
    "musk1": "2820110b89c0ace990262c6705984074733003d472793575f60fcdaf49692d54",
    "musk2": "4dc14fc9a7d5237e81fdf1e8b4fae699cde4f8de29a3087b2db9ff50e869f8a5",
}
PUBLISHED = {
    "ABMIL (Ilse et al., 2018)": ("0.892", "0.858"),
    "MI-Net with deep supervision (Wang et al., 2018)": ("0.894", "0.874"),
    "mi-Graph (Zhou et al., 2009)": ("0.889", "0.903"),
}
"""Accuracies of repeated ten-fold cross-validation. Their standard errors are about 0.04."""


def musk(name: str, data: Path | None = None) -> DataSet:
    """Returns Musk 1 or 2, with three repetitions of ten folds.

    Raises: OSError if it can neither be found nor downloaded; ValueError if it is damaged.
    """
    file = None if data is None else data / "musk" / f"{name}.csv"
    if file is not None and file.is_file():
        rows = read_bags(file)
    else:
        file = file_at(data, f"musk/{name}.zip", URLS[name])
        rows = read_uci(file, f"clean{name[-1]}.data")
    check_digest(file, (rows,), DIGESTS[name])
    num_folds, fold = cross_validation(sample_of_bags(rows, name), num_repetitions=3)
    return DataSet(
        name,
        "A set is a molecule, of its conformations with distances to its surface; the class is whether it smells of "
        "musk (UCI; Dietterich, Lathrop and Lozano-Pérez, 1997)",
        "classification",
        ("accuracy", "AUC", "balanced accuracy"),
        num_folds,
        fold,
        {model: printed[list(DIGESTS).index(name)] for model, printed in PUBLISHED.items()},
    )


LOADERS = {name: partial(musk, name) for name in DIGESTS}
"""The function that reads each data set from a folder."""


def read_uci(archive: Path, name: str) -> np.ndarray:
    """Reads the rows of UCI's file in the form of ``read_bags``. A molecule is a bag, numbered from 1 in file order.

    Raises: OSError without the program gzip, which reads the files NAME.Z of the program compress; ValueError if gzip
        finds the file damaged.
    """
    with ZipFile(archive) as files:
        if f"{name}.Z" not in files.namelist():
            return _rows(files.read(name).decode("ascii").split())
        packed = files.read(f"{name}.Z")
    try:
        text = run(["gzip", "-dc"], input=packed, capture_output=True, check=True).stdout
    except CalledProcessError as error:
        raise ValueError(
            f"{archive} expects {name}.Z as the program compress writes it; got a file that gzip cannot read: "
            f"{error.stderr.decode(errors='replace').strip()}. Remove the archive, and it is downloaded again."
        ) from error
    return _rows(text.decode("ascii").split())


def _rows(lines: Iterable[str]) -> np.ndarray:
    """Returns rows of label, molecule number and features, from lines of MOLECULE,CONFORMATION,features,label."""
    numbers: dict[str, int] = {}
    rows = []
    for line in lines:
        molecule, _, *features, label = line.split(",")
        bag = numbers.setdefault(molecule, len(numbers) + 1)
        rows.append([int(float(label)), bag, *map(int, features)])
    return np.array(rows, np.int64)
