"""Models as the commands read them."""

from pathlib import Path

from janossy.cli.errors import BadArgument
from janossy.estimators import SetClassifier, SetRegressor, load
from janossy.saving import SavedModelError


def load_model(folder: Path) -> SetClassifier | SetRegressor:
    """The estimator in a folder, or in one zip. Raises: BadArgument for what is none, or a damaged one."""
    try:
        return load(folder)
    except SavedModelError as error:
        raise BadArgument(str(error)) from None
