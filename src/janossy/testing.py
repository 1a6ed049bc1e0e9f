"""assert_invariant: whether a model of sets sees their order, or their batch-mates."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from janossy.checks import check_integer, check_number
from janossy.sets import Ragged, sets_of_example

__all__ = ["assert_invariant"]

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""By the outputs' dtype, absolute and relative; 0 for any other. Rounding alone stays below by 10 or more."""


def assert_invariant(
    model: Callable[..., Tensor],
    example: "Ragged | tuple[Tensor, Tensor]",
    *,
    num_permutations: int = 5,
    atol: float | None = None,
    rtol: float | None = None,
    seed: int | None = None,
) -> None:
    """Assert that each set's output depends on its elements alone: not on their order, nor on the rest of the batch.

    The model is called as it is, in training or in evaluation mode, without gradients: on the whole batch, on each set
    alone, and on the batch with the elements of every set reversed and then permuted at random. Its buffers, such as a
    BatchNorm's running statistics, and the state of torch's random source are put back after that.

    Args:
        model: any callable; it takes ``example``, or, where that is padded, ``model(x, mask)``.
        example: sets, two or more, of which one has different elements; or x (B, n, *features) and mask (B, n), bool,
            True = real. The elements of padded sets are moved to the front, and what stands behind them is changed too.
        num_permutations: permutations per set; the first is the reversal, the others are the same at every call.
        atol, rtol: a difference of more than atol + rtol · |output| fails; by default 1e-4 both for float32, 1e-9 for
            float64, 1e-2 for float16, 5e-2 for bfloat16. An output that is NaN fails.
        seed: for a model that draws: torch.manual_seed(seed) before each call. What it draws must then not depend on
            the order or the batch. Permutations by ``Sampled`` do: a network of them is invariant with a seed of its
            own, ``Sampled(num, seed=0)``, or through ``lambda sets: predict(network, sets, seed=0).mean``.

    Shapes: example of B sets -> (B, …), a row of numbers for each set.
    Raises: AssertionError that names the set, the permutation and the largest difference; ValueError for an example
        that could show nothing, num_permutations < 1, outputs of another shape, or a model that draws without a seed;
        TypeError for an argument of another type.

    Example:
        >>> from janossy.testing import assert_invariant
        >>> network = JanossyNetwork(None, JanossyPooling(TupleMLP(2, 3, 8), Tuples(2)), nn.Linear(8, 1))
        >>> assert_invariant(network, Ragged.from_sets([torch.randn(4, 3), torch.randn(2, 3), torch.randn(0, 3)]))
    """
    if not callable(model) or isinstance(model, type):
        raise TypeError(
            f"assert_invariant expects a model of sets, or a function; got {model!r}, of type {type(model).__name__}. "
            "Write assert_invariant(network, sets)."
        )
    sets = sets_of_example(example, "assert_invariant")
    check_integer("assert_invariant", "num_permutations", num_permutations)
    check_integer("assert_invariant", "seed", seed, optional=True)
    for name, number in {"atol": atol, "rtol": rtol}.items():
        if number is not None:
            check_number("assert_invariant", name, number, 1e-4)
    if num_permutations < 1 or len(sets) < 2 or not any((x != x[:1]).any() for x in sets):
        raise ValueError(
            "assert_invariant expects num_permutations >= 1 and two or more sets, of which one has different elements; "
            f"got num_permutations={num_permutations} and {sets!r}. With other sets the check could not fail."
        )
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()] if isinstance(model, nn.Module) else []
    source = torch.Generator().manual_seed(0)

    def outputs(sets: Ragged, fill: float = 0, more: int = 0) -> Tensor:
        if seed is not None:
            torch.manual_seed(seed)
        y = model(sets) if isinstance(example, Ragged) else model(*_padded(sets, fill, more))
        if not isinstance(y, Tensor) or y.dim() == 0 or y.shape[0] != len(sets):
            raise ValueError(
                f"assert_invariant expects the model to map {len(sets)} sets to a tensor ({len(sets)}, …); "
                f"got {tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__}. Wrap it in a function that does."
            )
        return y

    def check(got: Tensor, want: Tensor, b: int, how: str) -> None:
        _check(got, want, atol, rtol, f"set {b}, of {sets.sizes[b]} elements, {how}")

    try:
        with torch.no_grad(), torch.random.fork_rng():
            expected = outputs(sets)
            if seed is None and not torch.equal(outputs(sets).nan_to_num(), expected.nan_to_num()):
                raise ValueError(
                    "assert_invariant expects a model that gives the same sets the same outputs; got others in a "
                    "second call: it draws. Call eval(), fix its permutations as Sampled(num, seed=0) does, test "
                    "lambda sets: predict(model, sets, seed=0).mean, or pass seed= to seed torch before each call."
                )
            for b in range(len(sets)):
                check(outputs(sets[[b]])[0], expected[b], b, "alone instead of in the batch")
            if not isinstance(example, Ragged):
                other = outputs(sets, fill=1, more=1)
                for b in range(len(sets)):
                    check(other[b], expected[b], b, "with other padding")
            for j in range(num_permutations):
                orders = [_permutation(n, j, source) for n in sets.sizes]
                permuted = outputs(
                    Ragged.from_sets([x[order.to(x.device)] for x, order in zip(sets, orders, strict=True)])
                )
                for b, order in enumerate(orders):
                    check(permuted[b], expected[b], b, f"permuted by {order.tolist()}")
    finally:
        for buffer, before in buffers:
            buffer.copy_(before)


def _permutation(n: int, j: int, source: torch.Generator) -> Tensor:
    """The reversal if j = 0, else one drawn uniformly."""
    return torch.arange(n).flip(0) if j == 0 else torch.randperm(n, generator=source)


def _padded(sets: Ragged, fill: float, more: int) -> tuple[Tensor, Tensor]:
    """x and mask with ``more`` places behind the largest set."""
    x, mask = sets.to_padded(fill)
    behind = x.new_full((x.shape[0], more, *x.shape[2:]), fill)
    return torch.cat((x, behind), dim=1), nn.functional.pad(mask, (0, more))


def _check(got: Tensor, want: Tensor, atol: float | None, rtol: float | None, what: str) -> None:
    """Raise an AssertionError unless two outputs of one set, (…), are equal to the tolerance."""
    default = TOLERANCES.get(want.dtype, 0.0)
    atol, rtol = default if atol is None else atol, default if rtol is None else rtol
    if got.shape != want.shape:
        raise AssertionError(f"The output for {what}, has shape {tuple(got.shape)} and not {tuple(want.shape)}.")
    if torch.isclose(got, want, rtol=rtol, atol=atol).all():
        return
    difference = (got.double() - want.double()).abs().where(got != want, 0)
    worst: Any = int(difference.nan_to_num(torch.inf).argmax())
    here, there = got.flatten()[worst].item(), want.flatten()[worst].item()
    raise AssertionError(
        f"The output for {what}, is not the same: the largest difference is {difference.flatten()[worst].item():.3g}, "
        f"of {here:.6g} and {there:.6g}; atol={atol:g} and rtol={rtol:g} allow {atol + rtol * abs(there):.3g}."
    )
