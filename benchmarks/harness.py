"""Times of pairs of callables: one process, interleaved, with medians and their ratio."""

import gc
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from janossy import GRU, LSTM
from studies.experiments.record import about_here


@dataclass(frozen=True)
class Row:
    """One comparison. Both sides do the same work and return its result; ``reference`` is the plain way.

    With ``agree=False`` they do different work, and only the ratio of the times matters.
    """

    name: str
    ours: Callable[[], Tensor]
    reference: Callable[[], Tensor]
    agree: bool = True


@dataclass(frozen=True)
class Timing:
    """Times in milliseconds: medians, with quartiles. ``ratio`` is the median of the pairs' ratios."""

    name: str
    ours: float
    ours_quartiles: tuple[float, float]
    reference: float
    reference_quartiles: tuple[float, float]
    ratio: float
    num_pairs: int


def measure(rows: Iterable[Row], num_pairs: int, seconds: float) -> list[Timing]:
    """Times each row in pairs, in turn, up to ``num_pairs`` or (after at least five) up to ``seconds``."""
    timings = []
    for row in rows:
        for warm_up in (row.ours, row.reference) * 2:
            warm_up()
        pairs: list[tuple[float, float]] = []
        start = time.perf_counter()
        gc.disable()
        while len(pairs) < num_pairs and (len(pairs) < 5 or time.perf_counter() - start < seconds):
            # The first side alternates, so that neither always finds the other's data in the caches.
            ours_first = len(pairs) % 2 == 0
            first, second = (row.ours, row.reference) if ours_first else (row.reference, row.ours)
            a, b = _milliseconds(first), _milliseconds(second)
            pairs.append((a, b) if ours_first else (b, a))
        gc.enable()
        timings.append(_summary(row.name, pairs))
    return timings


def record(timings: list[Timing], about: str, command: str) -> dict:
    """Returns a JSON-able record with the machine and the versions."""
    return {
        "about": about,
        "command": command,
        **about_here(),
        "rows": [asdict(timing) for timing in timings],
    }


def origin(data: dict) -> str:
    """Returns the command, the machine, the versions and the date of a record."""
    machine, versions = data["machine"], data["versions"]
    return (
        f"`{data['command']}` on {machine['cpu']}, {machine['cores']} cores, Python {versions['python']}, "
        f"torch {versions['torch']}, {data['finished'][:10]}."
    )


def table(data: dict) -> str:
    """Returns a record as Markdown."""
    machine, versions = data["machine"], data["versions"]
    lines = [
        data["about"].strip(),
        "",
        f"`{data['command']}` on {machine['cpu']}, {machine['cores']} cores, {machine['torch_threads']} torch threads, "
        f"Python {versions['python']}, torch {versions['torch']}, {data['finished'][:10]}. "
        "Medians in milliseconds, quartiles in parentheses; the ratio is the median over interleaved pairs.",
        "",
        "| case | janossy | reference | reference / janossy | pairs |",
        "|---|---|---|---|---|",
    ]
    for row in data["rows"]:
        ours, reference = (
            f"{row[side]:.2f} ({row[side + '_quartiles'][0]:.2f}, {row[side + '_quartiles'][1]:.2f})"
            for side in ("ours", "reference")
        )
        lines.append(f"| {row['name']} | {ours} | {reference} | {row['ratio']:.2f}× | {row['num_pairs']} |")
    return "\n".join(lines) + "\n"


def check_gpu(command: str) -> None:
    """Ends with a message unless there is a GPU."""
    if not torch.cuda.is_available():
        raise SystemExit(
            f"{command} expects a GPU that torch can use; got a machine without one (torch {torch.__version__}, "
            "torch.cuda.is_available() is False). Run it where there is one: docs/gpu.md says how to report."
        )


def backward(pooled: Tensor) -> Tensor:
    """Returns the pooled sets after a backward pass through their sum."""
    pooled.sum().backward()
    return pooled.detach()


def torch_module(f: LSTM | GRU) -> nn.Module:
    """Returns torch's module with f's weights, for rows (T, L, d)."""
    module = getattr(nn, type(f).__name__)(f.in_features, f.hidden_features, batch_first=True)
    module.load_state_dict(f.state_dict())
    return module


def _milliseconds(call: Callable[[], Tensor]) -> float:
    """Times the second of two calls. The first one pays for pages and caches that the other side has taken."""
    call()
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def _summary(name: str, pairs: list[tuple[float, float]]) -> Timing:
    (ours, ours_quartiles), (reference, reference_quartiles) = (
        (quartiles[1], (quartiles[0], quartiles[2]))
        for quartiles in (statistics.quantiles(side, n=4) for side in zip(*pairs, strict=True))
    )
    ratio = statistics.median(reference / ours for ours, reference in pairs)
    return Timing(name, ours, ours_quartiles, reference, reference_quartiles, ratio, len(pairs))
