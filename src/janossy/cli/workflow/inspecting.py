"""The work of ``janossy inspect``: a model on one screen, read without torch."""

import sys
from math import prod
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from janossy.cli.errors import BadArgument
from janossy.cli.workflow.record import Record, in_words
from janossy.cli.workflow.side_by_side import hint
from janossy.estimators.description import Saved, SavedClassifier, SavedTrial, columns, read_estimator
from janossy.estimators.trials import OF_LARGER
from janossy.saving.reading import Contents, SavedModelError, shapes
from janossy.tables.codes import CategoryCodes, Code

MAX_NAMED = 12
"""The most columns or classes that are named."""
MAX_NAME = 200
"""The most characters of a name that are shown."""


def inspect(folder: Path) -> None:
    """Prints a description of a model. Raises: BadArgument for a folder that does not hold a model."""
    try:
        saved, contents = read_estimator(folder)
        if isinstance(saved, SavedClassifier):
            for labels in saved.fitted.columns:
                labels.array()
        lines = [*_reads(saved), *_is(saved, contents)]
    except (SavedModelError, FileNotFoundError) as error:
        raise BadArgument(str(error)) from None
    except (ArithmeticError, TypeError, ValueError) as error:
        reason = f"{error}\n".splitlines()[0][:300]
        raise BadArgument(f"{folder} expects an estimator as save describes it; {reason}") from None
    record = Record.read(folder)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in [*_predicts(saved, record, folder), *lines, *_scores(record)]:
        table.add_row(name, escape(printable(text)))
    (Console() if sys.stdout.isatty() else Console(width=120)).print(table)


def printable(text: str) -> str:
    """Returns text with escapes for characters that move or colour a terminal's cursor."""
    return "".join(x if x.isprintable() else x.encode("unicode_escape").decode() for x in text)


def _predicts(saved: Saved, record: Record | None, folder: Path) -> list[tuple[str, str]]:
    of = "" if record is None else f" of {', '.join(map(repr, record.recipe.target))}"
    classes = isinstance(saved, SavedClassifier)
    lines = [("model", f"{folder}: {'classification' if classes else 'regression'}{of}")]
    if isinstance(saved, SavedClassifier):
        for j, labels in enumerate(saved.fitted.columns):
            title = "labels" if saved.fitted.kind == "labels" else "classes"
            of = f" of {_target(record, j)}" if saved.fitted.kind == "columns" else ""
            lines.append((f"{title}{of}", _some([str(name) for name in labels.values])))
    if record is not None:
        ends = dict.fromkeys((f"{record.smallest:,}", f"{record.largest:,}"))
        sizes = f"{' to '.join(ends)} elements, {record.num_elements:,} in all"
        lines.append(("trained on", f"{record.num_sets:,} sets of {sizes}: {_some(list(record.files))}"))
        lines.append(("set id", "+".join(record.recipe.set_id) or "none: one row per set"))
        if record.recipe.inner_id:
            lines.append(("inner id", "+".join(record.recipe.inner_id)))
        if record.largest == 1 and record.recipe.set_id and (line := hint([code.name for code in columns(saved)[0]])):
            lines.append(("hint", line))
    return lines


def _target(record: Record | None, number: int) -> str:
    known = record is not None and number < len(record.recipe.target)
    return record.recipe.target[number] if record is not None and known else str(number)


def _reads(saved: Saved) -> list[tuple[str, str]]:
    elements, context = columns(saved)
    lines = [("elements", _some([_column(code) for code in elements]))]
    return [*lines, ("sets", _some([_column(code) for code in context]))] if context else lines


def _is(saved: Saved, contents: Contents) -> list[tuple[str, str]]:
    num = sum(prod(shape) for name, shape in shapes(contents.tensors).items() if not _is_buffer(name))
    used = [f"{_trial(trial)}, weight {trial.weight:.2f}" for trial in saved.trials if trial.weight]
    draws = saved.settings.get("num_permutations", 0)
    versions = ", ".join(f"{name} {version}" for name, version in contents.written_by.items())
    of_larger = [_trial(trial) for trial in saved.trials if trial.note == OF_LARGER]
    larger = f"of more than {saved.larger.size} elements: {'; '.join(of_larger)}" if saved.larger else ""
    return [
        ("strategies", "; ".join(used) or "–"),
        *([("larger sets", larger)] if larger else []),
        ("networks", f"{len(saved.networks)}, {num:,} weights in all"),
        ("orders", f"{draws} random orders per prediction, if a network reads random orders"),
        ("written by", versions),
    ]


def _is_buffer(name: str) -> bool:
    return name.rpartition(".")[2] in ("running_mean", "running_var", "num_batches_tracked")


def _trial(trial: SavedTrial) -> str:
    settings = ", ".join(f"{name}={value}" for name, value in trial.settings.items())
    return f"{trial.strategy} ({settings})" if settings else trial.strategy


def _scores(record: Record | None) -> list[tuple[str, str]]:
    if record is None:
        return []
    minutes, rest = divmod(round(record.seconds), 60)
    took = f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
    return [
        ("scores", f"{in_words(record.scores)}, on {record.num_judged:,} validation sets"),
        ("fitted", f"in {took}, finished {record.finished}"),
        ("command", record.command),
    ]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    shown = [name if len(name) <= MAX_NAME else name[:MAX_NAME] + "…" for name in names[:MAX_NAMED]]
    return ", ".join(shown) + more


def _column(code: Code) -> str:
    kind = f"{len(code.categories):,} categories" if isinstance(code, CategoryCodes) else code.kind
    return f"{code.name} ({kind})"
