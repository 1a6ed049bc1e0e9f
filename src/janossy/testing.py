"""assert_invariant: a test that a model's output for a set depends on neither the elements' order nor the batch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from janossy.checks import check_integer, check_number
from janossy.sets import Ragged, sets_of_example

__all__ = ["assert_invariant"]

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""The absolute and relative tolerance per dtype, 0 for other dtypes. Rounding alone is smaller by 10 or more."""


def assert_invariant(
    model: Callable[..., Tensor],
    example: "Ragged | tuple[Tensor, Tensor]",
    *,
    num_permutations: int = 5,
    atol: float | None = None,
    rtol: float | None = None,
    seed: int | None = None,
) -> None:
    """Asserts that the output for a set depends on its elements alone, not on their order or on other sets.

    The model keeps its mode, training or evaluation, and is called without gradients:

    - on the whole batch;
    - on each set alone;
    - on the batch with the elements of every set reversed, then permuted at random.

    Afterwards the model's buffers, such as a BatchNorm's running statistics, and torch's random state are restored.

    Args:
        model: any callable. It is called with ``example``, or as ``model(x, mask)`` if the example is padded.
        example: two or more sets, of which at least one has different elements. Alternatively x (B, n, *features) and
            mask (B, n), bool, True = real. The elements of padded sets are moved to the front, and the padding behind
            them is varied too.
        num_permutations: permutations per set. The first is the reversal; the others are the same at every call.
        atol, rtol: a difference of more than atol + rtol · |output| fails, and so does an output that is NaN. Both
            default to 1e-4 for float32, 1e-9 for float64, 1e-2 for float16 and 5e-2 for bfloat16.
        seed: the argument of torch.manual_seed before each call, for a model that draws random numbers. These must
            then not depend on the order or the batch. Permutations by ``Sampled`` do depend on both. Such a network
            is invariant with a seed of its own, ``Sampled(num, seed=0)``, or through
            ``lambda sets: predict(network, sets, seed=0).mean``.

    Shapes: example of B sets -> (B, …), one output per set.
    Raises:
        AssertionError: if an output differs. The message names the set, the permutation and the largest difference.
        ValueError: if the example could show nothing, or num_permutations < 1. If outputs have another shape, or the
            model draws random numbers without a seed.
        TypeError: for an argument of another type.

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
                    "assert_invariant expects a model that gives the same sets the same outputs; got different ones "
                    "in a second call: it is random. Call eval(), fix its permutations as Sampled(num, seed=0) does, "
                    "test lambda sets: predict(model, sets, seed=0).mean, or pass seed= to seed torch before each call."
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
    """Returns the reversal of n positions if j = 0, else a uniformly drawn permutation."""
    return torch.arange(n).flip(0) if j == 0 else torch.randperm(n, generator=source)


def _padded(sets: Ragged, fill: float, more: int) -> tuple[Tensor, Tensor]:
    """Returns x and mask with ``more`` places behind the largest set."""
    x, mask = sets.to_padded(fill)
    behind = x.new_full((x.shape[0], more, *x.shape[2:]), fill)
    return torch.cat((x, behind), dim=1), nn.functional.pad(mask, (0, more))


def _check(got: Tensor, want: Tensor, atol: float | None, rtol: float | None, what: str) -> None:
    """Raises an AssertionError unless two outputs for one set, (…), are equal within the tolerance."""
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
