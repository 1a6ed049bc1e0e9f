"""A fit in each process that a launcher has started: ``-m tests.estimators.launched FOLDER [--accelerator]``."""

import sys
from pathlib import Path

import numpy as np
from torch import distributed

from janossy.estimators import SetRegressor
from janossy.tables import SetStream
from tests.estimators.two_processes import FITS, OPTIONS

folder = Path(sys.argv[1])
if "--accelerator" in sys.argv:  # like a script of Accelerate, which has made the process group
    from accelerate import Accelerator

    Accelerator(cpu=True)
name, strategy = FITS[0]
stream = SetStream(folder / f"{name}.parquet", "y")
model = SetRegressor(strategy, **OPTIONS).fit(stream)
rank = distributed.get_rank() if distributed.is_initialized() else "alone"
np.save(folder / f"launched-{rank}.npy", model.predict(stream, return_std=True))
