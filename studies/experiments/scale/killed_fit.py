"""A training run that is killed (SIGKILL) fifty times at random moments, against the same run without kills.

``python -m studies.experiments.scale.killed_fit`` writes docs/results/scale/killed_fit.json and .md. A recurrence with
dropout learns from a stream. When it is started again, it resumes from its checkpoint. Kills come after CPU seconds
from an exponential distribution, so that they fall into starting, reading, training and saving.
"""

import argparse
import hashlib
import json
import os
import signal
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from janossy.estimators import SetRegressor
from janossy.estimators import checkpoint as checkpoints
from janossy.estimators.training import Training
from janossy.tables import SetStream
from studies.experiments.record import about_here
from studies.experiments.scale.table import write_table

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "scale"
COMMAND = "python -m studies.experiments.scale.killed_fit"
NETWORK = {"strategy": "gru", "width": 16, "dropout": 0.1}
SETTINGS = {"max_epochs": 15, "batch_size": 32, "random_state": 0, "time_budget": None}
ROWS = 10_000
MEAN_SECONDS = 0.25
"""The mean CPU seconds between a start and the kill."""


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        data = killed(Path(folder), arguments.kills, arguments.seed, arguments.rows)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "killed_fit.json").write_text(
        json.dumps({"command": COMMAND, **about_here(), **data}, indent=1) + "\n"
    )
    (arguments.out / "killed_fit.md").write_text(page({"command": COMMAND, **data}))
    print(page({"command": COMMAND, **data}))


def killed(folder: Path, num_kills: int, seed: int, num_rows: int) -> dict:
    """Returns the ends of the two runs. Each start is a fork of this process, which itself only watches."""
    _wait(_fork(write_table, folder / "long.parquet", num_rows, 0))
    _wait(_fork(fit, folder, "alone"))
    random = np.random.default_rng(seed)
    starts: list[dict] = []
    while True:
        saved = saved_step(folder)
        child = _fork(fit, folder, "killed")
        kill = len(starts) < num_kills
        seconds = float(random.exponential(MEAN_SECONDS)) if kill else float("inf")
        ended = _wait(child, seconds)
        steps = _steps(folder / "killed.steps")
        began = next((step for start, step in steps if start == child), None)
        starts.append(
            {"seconds": round(seconds, 2) if kill else None, "saved": saved, "began": began, "finished": ended}
        )
        if ended:
            break
    alone, again = ((folder / f"{name}.sha256").read_text() for name in ("alone", "killed"))
    of_alone, computed = _steps(folder / "alone.steps"), _steps(folder / "killed.steps")
    return {
        "settings": {key: value for key, value in (NETWORK | SETTINGS).items() if value is not None},
        "num_rows": num_rows,
        "kills": sum(not start["finished"] for start in starts),
        "steps": len(of_alone),
        "computed": len(computed),
        "saved_again": sum(start["began"] is not None and start["began"] < start["saved"] for start in starts),
        "equal": alone == again,
        "weights": {"alone": alone, "killed": again},
        "starts": starts,
    }


def fit(folder: Path, name: str) -> None:
    """Runs the fit, and notes each step as it begins, and the weights at the end."""
    checkpoints.SECONDS = 0.03
    torch.set_num_threads(1)
    file = os.open(folder / f"{name}.steps", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    step = Training.step

    def noted(self, *arguments):
        os.write(file, f"{os.getpid()} {self.state.step}\n".encode())
        return step(self, *arguments)

    Training.step = noted
    stream = SetStream(folder / "long.parquet", "target", set_id="set_id")
    model = SetRegressor(NETWORK, checkpoint=folder / name, **SETTINGS).fit(stream)
    weights = b"".join(x.numpy().tobytes() for x in model.ensemble_.networks[0].state_dict().values())
    (folder / f"{name}.sha256").write_text(hashlib.sha256(weights).hexdigest())


def saved_step(folder: Path) -> int:
    """Returns the step of the checkpoint."""
    file = folder / "killed" / "training.pt"
    return torch.load(file, weights_only=True)["state"]["state"]["step"] if file.exists() else 0


def _fork(work, *arguments) -> int:
    if child := os.fork():
        return child
    try:
        work(*arguments)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        os._exit(1)
    os._exit(0)


def _wait(child: int, seconds: float = float("inf")) -> bool:
    """Returns True if the process ended by itself within these CPU seconds; else it is killed.

    Raises: RuntimeError if it failed.
    """
    while _used(child) < seconds:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            if status:
                raise RuntimeError(f"a run failed by itself, with status {status}")
            return True
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _used(child: int) -> float:
    """Returns the CPU seconds of a process."""
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _steps(file: Path) -> list[tuple[int, int]]:
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(pid), int(step)) for pid, step in map(str.split, lines)]


def page(data: dict) -> str:
    """Returns a record as Markdown."""
    lines = [
        "# Killed, and gone on",
        "",
        f"`{data['command']}`: a fit to a stream of {data['num_rows']:,} rows that is killed",
    ]
    lines[-1] += (
        f" (SIGKILL) {data['kills']} times at random moments and started again, against the same fit left alone."
    )
    lines += ["", "| | |", "|---|---|", f"| steps of training | {data['steps']:,} |"]
    more = data["computed"] - data["steps"]
    lines += [
        f"| steps begun by the killed fit | {data['computed']:,}, {more:,} of them after its last checkpoint each |"
    ]
    lines += [f"| starts that began before their checkpoint | {data['saved_again']} |"]
    before = sum(start["began"] is None for start in data["starts"])
    lines += [f"| kills before the first step of a start | {before} |"]
    lines += [f"| final weights | {'equal, bit for bit' if data['equal'] else 'NOT equal'} |"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
