"""What ``janossy inspect`` does: a model on one screen."""

from pathlib import Path

from rich.markup import escape
from rich.table import Table

from janossy.cli.workflow.display import duration, screen
from janossy.cli.workflow.evaluation import Model, task_of
from janossy.cli.workflow.model import load_model
from janossy.cli.workflow.record import Record, in_words
from janossy.cli.workflow.report import str_of
from janossy.estimators import SetClassifier
from janossy.saving import read_model
from janossy.tables.codes import Categories, Code

MOST_NAMED = 12
"""So many columns, or classes, are named."""


def inspect(folder: Path) -> None:
    """Print what is known of a model. Raises: BadArgument for what is none."""
    model, record = load_model(folder), Record.read(folder)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in [*_predicts(model, record, folder), *_reads(model), *_is(model, folder), *_scores(record)]:
        table.add_row(name, escape(text))
    screen().print(table)


def _predicts(model: Model, record: Record | None, folder: Path) -> list[tuple[str, str]]:
    of = "" if record is None else f" of {', '.join(map(repr, record.recipe.target))}"
    lines = [("model", f"{folder}: {task_of(model)}{of}")]
    if isinstance(model, SetClassifier):
        lines.append(("classes", _some([str(name) for name in model.classes_])))
    if record is not None:
        ends = dict.fromkeys((f"{record.smallest:,}", f"{record.largest:,}"))
        sizes = f"{' to '.join(ends)} elements, {record.num_elements:,} in all"
        lines.append(("trained on", f"{record.num_sets:,} sets of {sizes}: {_some(list(record.files))}"))
        lines.append(("set id", ", ".join(record.recipe.set_id) or "none: a row a set"))
    return lines


def _reads(model: Model) -> list[tuple[str, str]]:
    encoder = model.encoder_
    lines = [("elements", _some([_column(code) for code in encoder.elements]))]
    return [*lines, ("sets", _some([_column(code) for code in encoder.context]))] if encoder.context else lines


def _is(model: Model, folder: Path) -> list[tuple[str, str]]:
    networks = model.ensemble_.networks
    num = sum(weight.numel() for network in networks for weight in network.parameters())
    used = [f"{str_of(trial)}, weight {trial.weight:.2f}" for trial in model.trials_ if trial.weight]
    orders = f"{model.num_permutations} random orders a prediction, where a network draws them"
    versions = ", ".join(f"{name} {version}" for name, version in read_model(folder).written_by.items())
    return [
        ("strategies", "; ".join(used) or "–"),
        ("networks", f"{len(networks)}, {num:,} weights in all"),
        ("orders", orders),
        ("written by", versions),
    ]


def _scores(record: Record | None) -> list[tuple[str, str]]:
    if record is None:
        return []
    return [
        ("scores", f"{in_words(record.scores)}, of {record.num_judged:,} sets left out of training"),
        ("fitted", f"in {duration(record.seconds)}, finished {record.finished}"),
        ("command", record.command),
    ]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _column(code: Code) -> str:
    kind = f"{len(code.categories):,} categories" if isinstance(code, Categories) else code.kind
    return f"{code.name} ({kind})"
