"""The tables that are fitted: how each is read, as a user would give it to ``janossy fit``, and where it is from."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from janossy.cli.workflow.recipe import sets_to_fit
from janossy.cli.workflow.record import Recipe
from janossy.tables import SetTable


@dataclass(frozen=True)
class Source:
    """A table of sets: what a set is and what is predicted, and the columns that say so."""

    about: str
    target: str
    set_id: str = ""
    """The column whose values tell sets apart; "" if a row is a set."""
    is_class: bool = True
    set_columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


SOURCES = {
    "cuisines": Source("recipes by ingredients → one of five cuisines (Ahn et al., 2011)", "cuisine", "recipe"),
    "digits": Source("images of digits as points with ink → the digit (UCI)", "digit", "image"),
    "dota2": Source(
        "line-ups of ten heroes → does team 1 win? (UCI)",
        "won",
        "match",
        set_columns=("cluster_ID", "game_mode", "game_type"),
    ),
    "esol": Source("molecules as bags of atoms → log solubility (Delaney, 2004)", "log solubility", "compound", False),
    "fox": Source("images as bags of segments → is there a fox? (Andrews et al., 2002)", "is_fox", "bag"),
    "glass": Source(
        "alloys as elements with fractions → is it a metallic glass? (Matbench)",
        "target",
        "material",
        drop=("formula",),
    ),
    "movies": Source("films by tags, genres and people → score (IMDB)", "imdb_score", is_class=False),
    "mutagenesis1": Source("molecules as bags of bonded atoms → mutagenic? (Srinivasan et al., 1994)", "label", "bag"),
    "supercon": Source(
        "superconductors as elements with amounts → critical temperature (Stanev et al., 2018)",
        "Tc",
        "material",
        False,
        drop=("formula",),
    ),
    "tiger": Source("images as bags of segments → is there a tiger? (Andrews et al., 2002)", "is_tiger", "bag"),
}


def read(folder: Path, name: str, part: str) -> tuple[SetTable, np.ndarray]:
    """Returns the sets of FOLDER/NAME/PART.*, with their targets.

    Raises: OSError if the file is not there.
    """
    source, files = SOURCES[name], sorted((folder / name).glob(f"{part}.*"))
    if not files:
        raise OSError(f"{folder / name} expects a file {part}.csv, {part}.csv.gz or {part}.parquet; got none.")
    recipe = Recipe(
        set_id=(source.set_id,) if source.set_id else (),
        target=(source.target,),
        set_columns=source.set_columns,
        drop=source.drop,
    )
    found = sets_to_fit(files[:1], recipe)
    assert found.targets is not None
    return found.sets, found.targets if source.is_class else found.targets.astype(np.float64)
