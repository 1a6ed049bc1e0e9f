"""GPU times, each beside other ways to compute the same numbers, and beside its roofline.

Forward and backward, float32, medians of thirty runs after five. The roofline is the least time that the work takes:
the
slowest of its FLOPs, its bytes and its special functions at the device's peak. Special functions are exp2, reciprocal,
sine, ….

``make bench-cuda``, or ``python -m benchmarks.cuda [--out FOLDER]``. It needs a GPU.
"""

import argparse
import copy
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import combinations, permutations
from math import comb, perm
from pathlib import Path

import torch
from torch import Tensor, nn
from torch_geometric.nn import DeepSetsAggregation, LSTMAggregation

from benchmarks.graph import power_law_graph
from benchmarks.harness import backward, check_gpu
from benchmarks.recurrent import power_law_sizes
from benchmarks.step import TASK
from janossy import LSTM, Canonical, Combinations, JanossyPooling, Ragged, Spectral, Stack, TupleMLP, Tuples
from janossy.evaluate.gpu import SPECIALS, Gpu, gpu_of
from janossy.evaluate.spectral import TOLERANCE
from janossy.graph import GraphSAGE, two_hops
from janossy.kernels.expansions import num_harmonics
from studies.experiments.record import about_here
from studies.paper.arithmetic.models import MODELS

BOUND = 8.0
"""The approximate range of pre-activations in the case of ``spectral``."""


@dataclass(frozen=True)
class Work:
    """The least work of a case, forward and backward."""

    flops: float
    bytes: float
    specials: float

    def __add__(self, other: "Work") -> "Work":
        return Work(self.flops + other.flops, self.bytes + other.bytes, self.specials + other.specials)

    def seconds(self, gpu: Gpu) -> float:
        return gpu.seconds(**asdict(self))

    def bound(self, gpu: Gpu) -> str:
        """Returns the slowest of the three parts."""
        return max(asdict(self), key=lambda part: gpu.seconds(**{part: asdict(self)[part]}))


def products(num: float, inputs: int, outputs: int) -> Work:
    """Returns the work of ``num`` vectors times a matrix with both gradients. Inputs and outputs move once each way."""
    return Work(6.0 * num * inputs * outputs, 4.0 * 2 * num * (inputs + outputs), 0)


def of_tuples(num_sets: int, n: int, d: int, H: int, k: int, *, increasing: bool = False) -> Work:
    """Returns the work of projections, and per tuple and unit a sum of k, an activation and its kept slope."""
    num_tuples = num_sets * (comb(n, k) if increasing else perm(n, k))
    kept = 4.0 * 2 * num_sets * n * k * H  # slopes, written and read
    return products(num_sets * n, d, k * H) + Work(k * num_tuples * H, kept, SPECIALS * num_tuples * H)


def of_harmonics(num_sets: int, n: int, d: int, H: int, k: int, num: int) -> Work:
    """Returns the work of a series.

    - projections
    - per element and unit, the sine and cosine of k angles
    - per harmonic, k rotations and sums over 2^k products, in complex numbers of six flops, with their slopes
    """
    elements = num_sets * n * H
    flops = 2.0 * 6 * (k + 2**k) * elements * num
    return products(num_sets * n, d, k * H) + Work(flops, 4.0 * 2 * k * elements, 2 * k * elements)


def of_lstm_cells(num: float, d: int, H: int) -> Work:
    """Returns the work of LSTM cells: both products, five activations per unit, and kept gates (4) and states (2)."""
    return products(num, d + H, 4 * H) + Work(0, 4.0 * 2 * num * 6 * H, SPECIALS * 5.0 * num * H)


@dataclass(frozen=True)
class Case:
    """A timed case: ours and others with the same numbers, or with ``same=False`` with other samples."""

    name: str
    work: Work
    ours: Callable[[], Tensor]
    others: dict[str, Callable[[], Tensor]]
    same: bool = True


def cases(device: str, *, small: bool = False) -> Iterator[Case]:
    """Yields all cases. Small ones are for a test of their results."""
    yield tuples_case(device, 3 if small else 32, 5 if small else 100, 8 if small else 64, 16 if small else 128, 2)
    yield tuples_case(device, 4 if small else 128, 5 if small else 10, 8 if small else 100, 6 if small else 30, 3, True)
    yield deep_sets_case(device, *((4, 5, 8, 6) if small else (1024, 30, 64, 64)))
    yield harmonics_case(device, *((2, 12, 4, 6) if small else (8, 2000, 16, 64)), compare=small)
    yield packed_case(device, 12 if small else 2000, 6 if small else 64)
    yield sage_case(device, 60 if small else 2708, 4 if small else 256)
    yield stack_case(device, 3 if small else 15, 16 if small else 128)


def tuples_case(device: str, num_sets: int, n: int, d: int, H: int, k: int, increasing: bool = False) -> Case:
    """Returns the case of ``fused`` against every tuple stacked."""
    f, x = TupleMLP(k, d, H).to(device), torch.randn(num_sets, n, d, device=device)
    x[:, :, 0] = x[:, :, 0].sort(1).values
    index = torch.tensor(list((combinations if increasing else permutations)(range(n), k)), device=device)
    pooling = JanossyPooling(f, Combinations(k) if increasing else Tuples(k), evaluate="fused")
    return Case(
        f"fused: {'increasing' if increasing else 'injective'} tuples, B={num_sets} n={n} d={d} H={H} k={k}",
        of_tuples(num_sets, n, d, H, k, increasing=increasing),
        lambda: backward(pooling(Ragged.from_padded(x))),
        stacked(f, x, index),
    )


def stacked(f: nn.Module, x: Tensor, index: Tensor) -> dict[str, Callable[[], Tensor]]:
    """Returns functions that enumerate, stack, apply and average, plain and compiled."""
    x.requires_grad_()

    def plain(x: Tensor) -> Tensor:
        rows = x[:, index]
        return f(rows.flatten(0, 1)).unflatten(0, rows.shape[:2]).mean(1)

    compiled = torch.compile(plain)
    return {"stacked": lambda: backward(plain(x)), "torch.compile": lambda: backward(compiled(x))}


def deep_sets_case(device: str, num_sets: int, n: int, d: int, H: int) -> Case:
    """Returns the case of ``fused`` for k = 1 against PyG's DeepSetsAggregation."""
    f, x = TupleMLP(1, d, H).to(device), torch.randn(num_sets, n, d, device=device, requires_grad=True)
    pooling, theirs = (
        JanossyPooling(f, Tuples(1), evaluate="fused"),
        DeepSetsAggregation(nn.Sequential(f.hidden[0], nn.Tanh())),
    )
    theirs.aggr = "mean"
    index = torch.arange(num_sets, device=device).repeat_interleave(n)
    return Case(
        f"fused: k=1, B={num_sets} n={n} d={d} H={H}",
        of_tuples(num_sets, n, d, H, 1),
        lambda: backward(pooling(Ragged.from_padded(x))),
        {"DeepSetsAggregation": lambda: backward(theirs(x.flatten(0, 1), index, dim_size=num_sets) / n)},
    )


def harmonics_case(device: str, num_sets: int, n: int, d: int, H: int, *, compare: bool) -> Case:
    """Returns the case of ``spectral`` for injective triples, which are too many to stack or enumerate."""
    f, x = TupleMLP(3, d, H).to(device), torch.randn(num_sets, n, d, device=device)
    index = torch.tensor(list(permutations(range(n), 3)), device=device) if compare else None
    pooling = JanossyPooling(f, Tuples(3), evaluate=Spectral(enumerate_up_to=0))
    num = int(num_harmonics("tanh", TOLERANCE, BOUND))
    others = {} if index is None else stacked(f, x, index)
    x.requires_grad_()
    return Case(
        f"spectral: injective triples, B={num_sets} n={n} d={d} H={H}",
        of_harmonics(num_sets, n, d, H, 3, num),
        lambda: backward(pooling(Ragged.from_padded(x))),
        others,
    )


def packed_case(device: str, num_sets: int, width: int) -> Case:
    """Returns the case of ``packed`` on sets of power-law sizes in a canonical order, against PyG's padded LSTM."""
    f, sizes = LSTM(width, width).to(device), power_law_sizes(num_sets, 800 if num_sets > 100 else 12)
    x = torch.randn(sum(sizes), width)
    x[:, 0] = torch.arange(len(x))  # sorted, so that the canonical order is the stored one
    sets = Ragged.from_sizes(x.to(device).requires_grad_(), sizes)
    theirs = LSTMAggregation(width, width).to(device)
    theirs.lstm.load_state_dict(f.state_dict())
    pooling, index = JanossyPooling(f, Canonical(0), evaluate="packed"), sets.to_index()[1]
    return Case(
        f"packed: LSTM({width}, {width}), {num_sets} sets of power-law sizes",
        of_lstm_cells(sum(sizes), width, width),
        lambda: backward(pooling(sets)),
        {"LSTMAggregation": lambda: backward(theirs(sets.values, index, dim_size=num_sets))},
        same=False,  # PyG's LSTM reads padding
    )


def sage_case(device: str, num_vertices: int, batch_size: int, k: int = 5) -> Case:
    """Returns the case of a GraphSAGE step on dense features, with hops made on the host and sent."""
    graph, width = power_law_graph(num_vertices, 2 * num_vertices), 256 if batch_size > 100 else 8
    vertices = torch.randperm(num_vertices)[:batch_size]
    hops = two_hops(graph, vertices, k_1=k, k_2=k)
    model = GraphSAGE(width, 7, aggregation="lstm", hidden_features=width).to(device)
    x, labels = torch.randn(num_vertices, width, device=device), torch.randint(7, (batch_size,), device=device)

    def ours() -> Tensor:
        model.zero_grad()
        logits = model.of_hops(x, hops.to(device))
        backward(nn.functional.cross_entropy(logits, labels))
        return logits.detach()

    cells = len(hops.first.values) + len(hops.second.values)
    return Case(
        f"GraphSAGE: a step of {batch_size} vertices, LSTM of {width} units, k_1 = k_2 = {k}, hops sent",
        of_lstm_cells(cells, width, width),
        ours,
        {},
    )


def stack_case(device: str, num_networks: int, batch_size: int) -> Case:
    """Returns the case of stacked networks of the arithmetic study, k = 3, against one after the other."""
    networks = [MODELS["k3-linear"].build(TASK, "sum", "uniform").to(device) for _ in range(num_networks)]
    x = TASK.draw(batch_size * num_networks, 0)[0].sort(1).values.to(device)
    stack = Stack([copy.deepcopy(network) for network in networks])
    f = networks[0].pooling.f
    n, d, H = x.shape[1], f.in_features, len(f.hidden[0].bias)

    def one_by_one() -> Tensor:
        each = (
            network(Ragged.from_padded(part)) for network, part in zip(networks, x.chunk(num_networks), strict=True)
        )
        return backward(torch.stack(list(each)))

    return Case(
        f"stack: {num_networks} networks of the arithmetic study, k = 3, batch {batch_size}",
        of_tuples(num_networks * batch_size, n, d, H, 3, increasing=True),
        lambda: backward(stack(Ragged.from_padded(x), joined=True)),
        {"one by one": one_by_one},
    )


def timed(call: Callable[[], Tensor], num: int = 30) -> float:
    """Returns the median time in milliseconds, between events of the device."""
    for _ in range(5):
        call()
    times = []
    for _ in range(num):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def row(case: Case, gpu: Gpu, milliseconds: dict[str, float]) -> dict:
    """Returns a result: times, with the roofline beside ours."""
    least = 1e3 * case.work.seconds(gpu)
    ours = milliseconds["ours"]
    return {
        "name": case.name,
        "milliseconds": milliseconds,
        "roofline": least,
        "share": least / ours,
        "bound": case.work.bound(gpu),
        **asdict(case.work),
    }


def table(data: dict) -> str:
    """Returns the results as Markdown."""
    lines = [
        f"{data['gpu']}. torch {data['versions']['torch']}, {data['finished'][:10]}.",
        "",
        "| case | ours, ms | others, ms | roofline, ms | of the roofline | bound by |",
        "|---|---|---|---|---|---|",
    ]
    for each in data["rows"]:
        others = ", ".join(f"{name} {ms:.3f}" for name, ms in each["milliseconds"].items() if name != "ours") or "none"
        ours = f"{each['milliseconds']['ours']:.3f}"
        roofline = f"{each['roofline']:.4f} | {each['share']:.0%} | {each['bound']}"
        lines.append(f"| {each['name']} | {ours} | {others} | {roofline} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Times every case, prints the table, and writes it as cuda.json and cuda.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/cuda"), help="folder of the results")
    out = parser.parse_args().out
    check_gpu("python -m benchmarks.cuda")
    torch.manual_seed(0)
    gpu, rows = gpu_of(torch.device("cuda", torch.cuda.current_device())), []
    for case in cases("cuda"):
        times = {name: timed(call) for name, call in {"ours": case.ours, **case.others}.items()}
        rows.append(row(case, gpu, times))
        print(f"{case.name}: {times}", flush=True)
    data = {"about": __doc__, "gpu": str(gpu), **about_here(), "rows": rows}
    out.mkdir(parents=True, exist_ok=True)
    (out / "cuda.json").write_text(json.dumps(data, indent=1) + "\n")
    (out / "cuda.md").write_text(table(data))
    print(table(data))


if __name__ == "__main__":
    main()
