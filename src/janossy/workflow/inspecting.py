"""What ``janossy inspect`` does: a model on one screen."""

from pathlib import Path

from rich.table import Table

from janossy.estimators.codes import Categories, Code
from janossy.workflow.display import screen
from janossy.workflow.judged import task_of
from janossy.workflow.model import load_model
from janossy.workflow.record import Record

MOST_COLUMNS = 12
"""So many columns of elements, and of sets, are named."""


def inspect(folder: Path) -> None:
    """Print what is known of a model. Raises: BadArgument for what is none."""
    console = screen()
    model, record = load_model(folder), Record.read(folder)
    lines: list[tuple[str, str]] = [("model", f"{folder}: {task_of(model)}")]
    if record is not None:
        recipe = record.recipe
        lines[0] = ("model", f"{folder}: {record.task} of {recipe.target!r}")
        sizes = f"{record.smallest:,} to {record.largest:,} elements, {record.num_elements:,} in all"
        lines.append(("trained on", f"{record.num_sets:,} sets of {sizes}, of {', '.join(record.files)}"))
        if recipe.set_id is not None:
            lines.append(("set id", recipe.set_id))
    lines += [("elements", _columns(model.encoder_.elements)), ("sets", _columns(model.encoder_.context))]
    if record is not None:
        found = ", ".join(f"{name} {value:.4f}" for name, value in record.scores.items() if value is not None)
        lines.append(("scores", f"{found}, of {record.num_judged:,} sets left out of training"))
        lines.append(("fitted", f"in {record.seconds:.0f} s, finished {record.finished}"))
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(name, text.replace("[", r"\[") or "–")
    console.print(table)


def _columns(codes: tuple[Code, ...]) -> str:
    words = [f"{code.name} ({_kind(code)})" for code in codes[:MOST_COLUMNS]]
    return ", ".join(words) + (f" and {len(codes) - MOST_COLUMNS} more" if len(codes) > MOST_COLUMNS else "")


def _kind(code: Code) -> str:
    return f"{len(code.categories):,} categories" if isinstance(code, Categories) else code.kind
