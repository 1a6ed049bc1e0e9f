"""Fits a model to sets in Parquet files: alone, or as one of the processes that torchrun or accelerate has started."""

import argparse
from pathlib import Path

from torch import distributed

from janossy.estimators import SetRegressor, save
from janossy.tables import SetStream


def fit(sets: str, out: str, checkpoint: str) -> None:
    """Fits and writes the model. A killed run resumes from its checkpoint; the first of several processes writes."""
    model = SetRegressor("k1", max_epochs=2, time_budget=None, random_state=0, checkpoint=checkpoint)
    model.fit(SetStream(sets, y="target", set_id="set_id"))
    if not distributed.is_initialized() or distributed.get_rank() == 0:
        print(f"wrote {save(model, out)}: loss {model.trials_[-1].loss:.4f} on sets that were left out")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", type=Path)
    parser.add_argument("--out", type=Path, default=Path("model"))
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint"))
    given = parser.parse_args(arguments)
    fit(*(str(path.absolute()) for path in (given.sets, given.out, given.checkpoint)))


if __name__ == "__main__":
    main()
