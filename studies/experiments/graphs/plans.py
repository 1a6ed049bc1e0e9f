"""The runs on each data set, and the choice of a setting."""

from dataclasses import dataclass, replace
from statistics import mean

from studies.experiments.graphs.models import CONVOLUTIONS, Architecture
from studies.experiments.graphs.training import Schedule


@dataclass(frozen=True)
class Plan:
    """The runs on a data set: every model with every setting on the first seeds, and with the chosen one on all."""

    architectures: tuple[Architecture, ...]
    schedule: Schedule
    num_tuning_seeds: int
    num_seeds: int
    slow: tuple[str, ...] = ("SAGE LSTM", "Janossy LSTM", "mean, Janossy GRU")
    """Models that are tuned on one seed and run on three."""
    models: tuple[str, ...] = tuple(model for model in CONVOLUTIONS if "16" not in model)
    learning_rates: tuple[float, ...] = ()
    """The learning rates to try with each model; by default only that of the schedule."""
    data: str = ""
    """The data set, if the plan is another one for it and has a name of its own."""
    title: str = ""
    """The heading of the plan's table, by default the data set's name."""

    @property
    def settings(self) -> tuple[tuple[Architecture, Schedule], ...]:
        """All pairs of an architecture and a learning rate."""
        rates = self.learning_rates or (self.schedule.learning_rate,)
        return tuple(
            (architecture, replace(self.schedule, learning_rate=rate))
            for architecture in self.architectures
            for rate in rates
        )

    def seeds(self, model: str) -> tuple[range, range]:
        """Returns the seeds of tuning, and the others."""
        tuning, end = (1, min(3, self.num_seeds)) if model in self.slow else (self.num_tuning_seeds, self.num_seeds)
        return range(tuning), range(tuning, end)


def _heads(hidden_features: int, num_layers: int, dropouts: tuple[float, ...]) -> tuple[Architecture, ...]:
    """Returns plain architectures, and those with residual connections and Jumping Knowledge, by dropout."""
    return tuple(
        Architecture(hidden_features, num_layers, dropout, residual=jump is not None, jump=jump)
        for dropout in dropouts
        for jump in (None, "cat")
    )


PLANS = {
    "cora": Plan(_heads(64, 2, (0.5, 0.7)), Schedule(0.01, 5e-4, 200, 20), num_tuning_seeds=2, num_seeds=10),
    "pubmed": Plan(
        (Architecture(32, 2, 0.5, residual=True, jump="cat"),),
        Schedule(0.03, 5e-4, 60, 15),
        num_tuning_seeds=1,
        num_seeds=10,
        models=("GCN", "SAGE mean", "mean, Janossy pairs", "GAT", "SAGE mean, max", "Janossy pairs", "Janossy GRU"),
    ),
    "ppi": Plan(
        (Architecture(128, 3, 0.0, residual=True, jump=None),),
        Schedule(0.01, 0.0, 50, 10),
        num_tuning_seeds=1,
        num_seeds=10,
        slow=(),
        models=("SAGE mean", "GCN", "GAT", "Janossy singles", "mean, Janossy GRU"),
        learning_rates=(0.001, 0.003),
    ),
    "ppi-seconds": Plan(
        tuple(Architecture(width, 3, 0.0, residual=True, jump=None) for width in (128, 256)),
        Schedule(0.003, 0.0, 10_000, 10_000, max_seconds=600.0),
        num_tuning_seeds=1,
        num_seeds=3,
        slow=(),
        models=("GAT", "Janossy singles", "SAGE mean", "mean, Janossy GRU"),
        data="ppi",
        title="PPI, ten minutes each",
    ),
    "ppi-go": Plan(
        (Architecture(128, 2, 0.0, residual=True, jump="cat"),),
        Schedule(0.01, 0.0, 30, 30),
        num_tuning_seeds=1,
        num_seeds=10,
        slow=(),
        models=("SAGE mean", "mean, 16 Janossy pairs", "GCN", "GAT", "SAGE mean, max", "mean, Janossy GRU"),
    ),
}


def chosen(cells: list[dict], dataset: str, model: str) -> int | None:
    """Returns the setting with the best mean validation micro-F1 over the first seeds; None until all were run."""
    plan = PLANS[dataset]
    seeds, _ = plan.seeds(model)
    scores = [
        [cell["validation"] for cell in runs_of(cells, dataset, model, number) if cell["seed"] in seeds]
        for number in range(len(plan.settings))
    ]
    if any(len(found) < len(seeds) for found in scores):
        return None
    return max(range(len(scores)), key=lambda number: mean(scores[number]))


def runs_of(cells: list[dict], dataset: str, model: str, setting: int | None) -> list[dict]:
    """Returns the runs of a model and setting, by seed."""
    key = {"dataset": dataset, "model": model, "setting": setting}.items()
    return sorted((cell for cell in cells if key <= cell.items()), key=lambda cell: cell["seed"])
