"""The laws of orderings, functions and evaluators. Each raises AssertionError; test_laws_can_fail.py shows this."""

from collections import Counter
from copy import deepcopy
from itertools import accumulate, permutations

import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from janossy import Ragged
from tests.examples import drawing
from tests.oracle import pool_by_definition, rows_by_definition

EXACT = {"atol": 1e-12, "rtol": 1e-12}


def close(a: Tensor, b: Tensor, **tolerance) -> None:
    torch.testing.assert_close(a, b, **(tolerance or EXACT))


def pooled(pooling, sets: Ragged) -> Tensor:
    """Returns the result as one tensor, with the same samples at every call."""
    result = pooling(sets, **drawing(pooling.orderings))
    return result.values if isinstance(result, Ragged) else result


def law_definition(pooling, sets: Ragged, rows=rows_by_definition) -> None:
    """Checks that the layer equals brute force over these rows of each set."""
    expected = pool_by_definition(pooling, sets, rows)
    result = pooling(sets, **drawing(pooling.orderings))
    assert len(result) == len(sets)
    for got, want in zip(result, expected, strict=True):
        close(got, want)


def law_count(orderings, sets: Ragged) -> None:
    """Checks that rows have the number, length and owners that the ordering computes without building them."""
    rows = orderings.enumerate(sets, **drawing(orderings))
    positions, owners = rows.flatten()
    assert rows.counts() == [orderings.num_rows(n) for n in sets.sizes]
    assert owners.tolist() == [b for b, n in enumerate(sets.sizes) for _ in range(orderings.num_rows(n))]
    assert list(positions.sizes) == [orderings.row_length(sets.sizes[b]) for b in owners.tolist()]


def law_rows_are_orderings(orderings, sets: Ragged) -> None:
    """Checks that every row has distinct elements of its set: all of them, or k; −1 only after a set smaller than k."""
    positions, owners = orderings.enumerate(sets, **drawing(orderings)).flatten()
    bounds = sets.offsets.tolist()
    for row, b in zip(positions, owners.tolist(), strict=True):
        real = min(len(row), sets.sizes[b])
        chosen = row[:real].tolist()
        assert len(set(chosen)) == real, f"an element comes twice in {row.tolist()}"
        assert all(bounds[b] <= p < bounds[b + 1] for p in chosen), f"{chosen} is not within set {b}"
        assert row[real:].eq(-1).all(), f"no zero vector behind the elements in {row.tolist()}"


def law_invariant(pooling, sets: Ragged, *, bitwise: bool = False) -> None:
    """Checks that the order of a set's elements does not matter."""
    expected = pooled(pooling, sets)
    for seed in range(3):
        shuffle = torch.Generator().manual_seed(seed)
        shuffled = Ragged.from_sets([x[torch.randperm(len(x), generator=shuffle)] for x in sets])
        close(pooled(pooling, shuffled), expected, **({"atol": 0, "rtol": 0} if bitwise else EXACT))


def law_batch_mates(pooling, sets: Ragged) -> None:
    """Checks that a set's result does not depend on the other sets in its batch."""
    together = pooling(sets)
    for b in range(len(sets)):
        alone = pooling(sets[[b]])
        close(alone[0], together[b])


def law_parity(first, second, sets: Ragged, **tolerance) -> None:
    """Checks that two layers with equal weights agree in value, and in gradients by elements and parameters."""
    for a, b in zip(value_and_gradients(first, sets), value_and_gradients(second, sets), strict=True):
        close(a, b, **tolerance)


def value_and_gradients(pooling, sets: Ragged) -> list[Tensor]:
    """Returns the result, then the gradients of a fixed functional of it by the elements and every parameter."""
    values = sets.values.detach().clone().requires_grad_()
    result = pooled(pooling, sets.with_values(values))
    weights = torch.linspace(-1, 1, result.numel(), dtype=result.dtype, device=result.device).view_as(result)
    wanted = [values, *pooling.parameters()]
    gradients = torch.autograd.grad((result * weights).sum(), wanted, allow_unused=True)
    return [result.detach(), *(torch.zeros_like(w) if g is None else g for g, w in zip(gradients, wanted, strict=True))]


def law_gradients(pooling, sets: Ragged, *, twice: bool) -> None:
    """Checks that gradients by elements and parameters, and optionally second ones, equal finite differences."""
    names = [name for name, _ in pooling.named_parameters()]
    parameters = [p.detach() for p in pooling.parameters()]

    def run(values: Tensor, *parameters: Tensor) -> Tensor:
        return pooled(_with_parameters(pooling, dict(zip(names, parameters, strict=True))), sets.with_values(values))

    inputs = [x.detach().clone().requires_grad_() for x in (sets.values, *parameters)]
    for check in (gradcheck, gradgradcheck) if twice else (gradcheck,):
        assert check(run, inputs, fast_mode=True, atol=1e-6, raise_exception=False), f"{check.__name__} failed"


def _with_parameters(module, parameters: dict[str, Tensor]):
    """Returns a copy with these parameters. functional_call would end before a recomputation in backward."""
    module = deepcopy(module)
    for name, tensor in parameters.items():
        owner, _, leaf = name.rpartition(".")
        module.get_submodule(owner)._parameters[leaf] = tensor
    return module


def law_uniform(draws: list[tuple[int, ...]], n: int, k: int, *, failure_rate: float = 1e-6) -> None:
    """Checks that samples of k of n positions are uniform over the n!/(n − k)! outcomes, by a χ² test."""
    outcomes = list(permutations(range(n), k))
    counts = Counter(draws)
    assert set(counts) <= set(outcomes), f"drew {set(counts) - set(outcomes)}"
    expected = len(draws) / len(outcomes)
    assert expected >= 5, "too few draws for the χ² approximation"
    statistic = sum((counts[outcome] - expected) ** 2 / expected for outcome in outcomes)
    half = torch.tensor([(len(outcomes) - 1) / 2, statistic / 2], dtype=torch.float64)
    p_value = torch.special.gammaincc(half[0], half[1]).item()
    assert p_value > failure_rate, f"χ² = {statistic:.1f} over {len(outcomes)} outcomes, p = {p_value:.1e}"


def law_saves_no_more_than(estimate: float, run) -> None:
    """Checks that ``run()`` keeps at most this many bytes for backward, without parameters."""
    measured = saved_bytes(run)
    assert measured <= estimate, f"saves {measured} bytes, estimated at most {estimate:.0f}"


def saved_bytes(run, parameters=()) -> int:
    """Returns the bytes of the distinct storages that ``run()`` saves for backward."""
    storages = {}
    ours = {p.untyped_storage().data_ptr() for p in parameters}

    def pack(x: Tensor) -> Tensor:
        storages[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        kept.append(x)
        return x

    kept: list[Tensor] = []  # keeps tensors alive, so that no address is used twice
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        result = run()
    del result
    return sum(size for address, size in storages.items() if address not in ours)


def peak_bytes(run) -> int:
    """Returns the largest total size of tensors allocated by ``run()`` at one time."""
    run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiled:
        run()
    changes = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = accumulate(event.nbytes() for event in sorted(changes, key=lambda event: event.start_ns()))
    return max(held)
