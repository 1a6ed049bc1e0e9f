"""The screen of a fit: the columns, a line per candidate, and a progress line."""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf, isfinite
from shlex import quote
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from janossy.cli.workflow.describing import Described
from janossy.cli.workflow.record import shown
from janossy.cli.workflow.wording import in_options
from janossy.estimators import Progress, Trial


def screen() -> Console:
    """Returns the console of standard output, 120 characters wide if it is not a terminal."""
    return Console() if sys.stdout.isatty() else Console(width=120)


def show_columns(console: Console, columns: Sequence[Described]) -> None:
    """Prints the kind of each column, and hints."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("column", "per", "kind", "values", "missing", "reason"):
        table.add_column(title, overflow="fold")
    for column in columns:
        missing = f"{column.missing:,}" if column.missing else ""
        table.add_row(*map(escape, (column.name, column.owner, column.kind, column.values, missing, column.reason)))
    console.print(table)
    alike: dict[tuple[str, str], list[str]] = {}
    for column in columns:
        if column.hint:
            alike.setdefault((column.hint, column.option), []).append(column.name)
    for (hint, option), names in alike.items():
        say_hint(console, names, hint, option)


def say_hint(console: Console, names: Sequence[str], hint: str, option: str = "") -> None:
    """Prints a hint on columns, with the option that would name them, if there is one."""
    remedy = f": {option} {quote(','.join(names))}?" if option else ""
    verb = "seems" if len(names) == 1 else "seem"
    say(console, f"  {', '.join(names)} {verb} to hold {hint}{remedy}", style="yellow")


def say(console: Console, line: str, style: str | None = None) -> None:
    """Prints a line without markup, because it may hold the user's own names."""
    console.print(line, markup=False, highlight=False, soft_wrap=True, style=style)


@contextmanager
def warnings_said(console: Console) -> Iterator[None]:
    """Prints each UserWarning raised inside ``with`` as a line, and hides other warnings."""
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            for text in dict.fromkeys(str(w.message) for w in raised if issubclass(w.category, UserWarning)):
                say(console, in_options(text), style="yellow")


class _TimeLeft(ProgressColumn):
    """A column with the time until the search ends at the latest. It counts down between epochs too."""

    def render(self, task: Task) -> Text:
        left = task.fields["end"] - monotonic()
        return Text(f"at most {duration(max(0.0, left))} left" if left < inf else duration(task.elapsed or 0.0))


SLOW = 10.0
"""The seconds of an epoch from which a candidate that cannot end in time is told of. Others end soon enough."""


ENDED_EARLY = 0.05
"""The part of the time that is left if a search ended for lack of anything to do."""

OF_TIME = ("time", "seconds")
"""Words in the notes of candidates that had no time."""

MATTERS = 0.01
"""The part by which a loss must fall to count as better."""


class FitDisplay:
    """The progress of a search on the screen, used in ``with`` and as the estimator's ``progress``."""

    def __init__(self, console: Console, score: str) -> None:
        self.console, self.score = console, score
        self.best: tuple[float, str] | None = None
        self.told_slow: set[str] = set()
        self.last, self.left, self.may_be_repeated = 0.0, inf, False
        self.steps: list[tuple[float, float]] = []
        self.bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            _TimeLeft(),
            console=console,
            transient=True,
        )

    def __enter__(self) -> Self:
        self.bars.__enter__()
        self.task = self.bars.add_task("the first epoch", total=None, end=inf)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.__exit__(kind, error, trace)

    def __call__(self, progress: Progress) -> None:
        """Updates the progress line, and prints a line after each trial."""
        if progress.trial is not None:
            self._tried(progress)
        elif progress.epoch.number == 1:
            self._first_epoch(progress)
        self.last, self.left = progress.seconds, progress.seconds_left
        self.may_be_repeated = progress.repetition + 1 < progress.num_searches
        of = f", network {progress.network + 1} of {progress.num_networks}" if progress.num_networks > 1 else ""
        where = f"{progress.round}: {progress.candidate}{of}"
        epoch = progress.epoch
        total = progress.seconds + progress.seconds_left
        self.bars.update(
            self.task,
            description=f"{where}, epoch {epoch.number}, loss {epoch.train_loss:.4f}, in validation "
            f"{epoch.valid_loss:.4f}",
            completed=progress.seconds,
            total=total if total < inf else None,
            end=monotonic() + progress.seconds_left,
        )

    def _first_epoch(self, progress: Progress) -> None:
        """Warns as soon as it is known that a candidate's training will not end in time."""
        seconds, planned = progress.seconds - self.last, progress.epoch.planned
        is_short = seconds * (planned - 1) > progress.seconds_left
        if progress.candidate in self.told_slow or seconds < SLOW or not is_short:
            return
        self.told_slow.add(progress.candidate)
        possible = 1 + int(progress.seconds_left / seconds)
        say(
            self.console,
            f"{progress.candidate}: an epoch takes {duration(seconds)}, so that the time suffices for {possible} of "
            f"{planned} at most. More --time-budget, or fewer --max-epochs, would let training end as planned.",
            style="yellow",
        )

    def _tried(self, progress: Progress) -> None:
        trial = progress.trial
        assert trial is not None
        is_best = isfinite(trial.loss) and (self.best is None or trial.loss < self.best[0])
        if is_best:
            self.best = trial.loss, progress.candidate
            if progress.repetition == 0:  # other searches have other folds, whose losses differ by chance
                self.steps.append((progress.seconds, trial.loss))
        left = progress.seconds_left
        until = f"  at most {duration(left)} left" if left < inf else ""
        notes = ["best so far"] * is_best + [trial.note] * bool(trial.note)
        say(
            self.console,
            f"{duration(progress.seconds):>9}{until}  {progress.round}  loss {trial.loss:.4f}  "
            f"{self.score} {shown(trial.score):>7}  {', '.join([progress.candidate, *notes])}",
        )

    def outlook(self, trials: Sequence[Trial]) -> str:
        """Returns a sentence on what the second half of the time brought, and more of it may bring; "" without a limit.

        ``trials``: those of the search.
        """
        total = self.last + self.left
        if total == inf or not self.steps:
            return ""
        before = [loss for seconds, loss in self.steps if seconds <= total / 2]
        untried = sum(not isfinite(trial.loss) and any(word in trial.note for word in OF_TIME) for trial in trials)
        waiting = f" {untried} of {len(trials)} candidates had no time." if untried else ""
        if self.left > ENDED_EARLY * total:
            if untried or self.may_be_repeated:
                return f"The search ended early, as what is left to do takes longer than the time left.{waiting}"
            return "The search ended before its time was over: more time changes nothing."
        if not before:
            return f"No candidate had ended after half of the time: more time will probably help.{waiting}"
        part = 1 - self.steps[-1][1] / before[-1] if before[-1] > 0 else 0.0
        if part < MATTERS:
            unchanged = "The second half of the time did not improve the best loss"
            if untried:
                return f"{unchanged}.{waiting} More time helps if one of these is better."
            return f"{unchanged}: more will probably help little."
        return f"The second half of the time lowered the best loss by {part:.0%}: more will probably help.{waiting}"


def duration(seconds: float) -> str:
    """Returns seconds as text: 0:45, 12:05 or 3:20:00."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
