"""First calls: ``python -m benchmarks.first_call`` measures the waiting time of a new process.

Every layer runs forward and backward, in its own process. It runs once with an empty cache of compiled kernels
("cold"), and again with the kernels of that run ("warm"). Imports of torch and janossy are not counted. A cold process
pools in torch operations while other processes compile. ``compiled`` is the time at which its last kernel was ready,
and in a warm process, ``loaded`` that at which its kernels were.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch

from benchmarks.harness import about_here, origin
from janossy import GRU, JanossyPooling, Ragged, Sampled, TupleMLP, Tuples
from janossy.evaluate.loading import LOADING
from janossy.kernels.compilation import finish_compilations

RESULTS = Path(__file__).parent / "results"
D, H = 8, 32

LAYERS: dict[str, tuple[Callable[[], JanossyPooling], int]] = {
    "k=1, TupleMLP": (lambda: JanossyPooling(TupleMLP(1, D, H), Tuples(1)), 20),
    "k=1, TupleMLP of 2 layers": (lambda: JanossyPooling(TupleMLP(1, D, (H, H)), Tuples(1)), 20),
    "pairs of 10, tanh": (lambda: JanossyPooling(TupleMLP(2, D, H), Tuples(2)), 10),
    "pairs of 300, tanh": (lambda: JanossyPooling(TupleMLP(2, D, H), Tuples(2)), 300),
    "GRU, Sampled(1)": (lambda: JanossyPooling(GRU(D, H), Sampled(1)), 20),
}
"""The layers, with the size of their 32 sets."""


def main() -> None:
    """Measures all layers, prints the table and writes it as results/first_call.json and .md."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(first_call(sys.argv[2])))
        return
    found = {}
    for name in LAYERS:
        with tempfile.TemporaryDirectory() as cache:
            found[name] = [_in_a_process(name, cache) for _ in range(2)]
            print(name, found[name], flush=True)
    command = f"OMP_NUM_THREADS={torch.get_num_threads()} python -m benchmarks.first_call"
    data = {"about": __doc__, "command": command, **about_here(), "seconds": found}
    (RESULTS / "first_call.json").write_text(json.dumps(data, indent=1) + "\n")
    (RESULTS / "first_call.md").write_text(table(data))
    print(table(data))


def first_call(name: str) -> list[float]:
    """Returns the seconds of a first and a second call, until all kernels are ready, and of a call afterwards."""
    make, n = LAYERS[name]
    layer = make()
    sets = Ragged.from_sizes(torch.randn(32 * n, D), [n] * 32)
    began = perf_counter()

    def call() -> float:
        start = perf_counter()
        layer(sets).sum().backward()
        return perf_counter() - start

    seconds = [call(), call()]
    LOADING.wait()
    call()
    while finish_compilations():
        call()
    return [*seconds, perf_counter() - began, call()]


def table(data: dict) -> str:
    """Returns a record as Markdown."""
    lines = [
        data["about"].strip(),
        "",
        f"{origin(data)} Seconds.",
        "",
        "| layer | cold, first call | second call | compiled | call then | warm, first call | second call | loaded |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (cold, warm) in data["seconds"].items():
        of_cold = f"{cold[0]:.2f} | {cold[1]:.3f} | {cold[2]:.1f} | {cold[3]:.3f}"
        lines.append(f"| {name} | {of_cold} | {warm[0]:.2f} | {warm[1]:.3f} | {warm[2]:.1f} |")
    return "\n".join(lines) + "\n"


def _in_a_process(name: str, cache: str) -> list[float]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "JANOSSY_KERNELS": "background"}
    command = [sys.executable, "-m", "benchmarks.first_call", "--one", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
