"""examples/scale: its README's commands, run as they stand there."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from pyarrow import parquet

from janossy.batch import SetPredictor
from janossy.cli.app import app
from tests.batch.ray import ray
from tests.cli.commands import run

__all__ = ["ray"]

ROOT = Path(__file__).parents[2]
WALK = (ROOT / "examples" / "scale" / "README.md").read_text(encoding="utf-8")


def walk() -> list[list[str]]:
    """Returns the words of each line that the walk has a reader type."""
    return [
        shlex.split(line, comments=True)
        for block in re.findall(r"```sh\n(.*?)```", WALK, re.S)
        for line in block.splitlines()
    ]


def test_the_walk_names_commands_and_options_that_there_are():
    commands = typer.main.get_command(app).commands
    named = [words for program, *words in walk() if program == "janossy"]
    assert named
    for command, *words in named:
        known = {option for parameter in commands[command].params for option in parameter.opts}
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known, command


@pytest.mark.slow
@pytest.mark.only_all
def test_the_walk_of_the_readme(tmp_path, monkeypatch, ray):
    """With a tenth of the rows, on the Ray that the tests have started."""
    monkeypatch.chdir(tmp_path)
    address = {"RAY_ADDRESS": ray.get_runtime_context().gcs_address, "PYTHONPATH": os.pathsep.join(sys.path)}
    lines = walk()
    assert [line[0] for line in lines] == ["pip", "python", "janossy", "torchrun", "python", "janossy"]
    for program, *words in lines[1:]:
        words = [str(ROOT / word) if word.startswith("examples/") else word.replace("20000", "2000") for word in words]
        if program == "janossy":
            assert run(*words) == 0
            continue
        command = [sys.executable, *(["-m", "torch.distributed.run"] if program == "torchrun" else []), *words]
        subprocess.run(command, check=True, timeout=280, env=os.environ | address | {"OMP_NUM_THREADS": "1"})
    found = parquet.read_table("predictions")
    expected = SetPredictor("model")(parquet.read_table("sets.parquet"))
    assert found.column_names == ["set_id", "target", "prediction", "standard_error"]
    assert found["set_id"] == expected["set_id"]
    assert np.allclose(found["prediction"], expected["prediction"], rtol=1e-5, atol=1e-5)
    by_ray = SetPredictor("model-by-ray")(parquet.read_table("sets.parquet"))
    assert np.allclose(by_ray["prediction"], expected["prediction"], rtol=1e-3, atol=1e-3)
