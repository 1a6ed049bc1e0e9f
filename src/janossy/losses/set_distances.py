"""Distances between sets of points, for networks that predict sets: Chamfer, optimal assignment, energy."""

from collections.abc import Callable

import torch
from torch import Tensor

from janossy.evaluate.reduce import widened
from janossy.evaluate.validation import check_sets
from janossy.sets import Ragged

MAX_PADDED = 2**23
"""The most pairs of elements, with padding, whose distances are computed at once for several pairs of sets."""


def chamfer_distance(predicted: Ragged, target: Ragged) -> Tensor:
    """Returns the Chamfer distance of each pair of sets, (B,), from the distances of nearest neighbours.

    d(X, Y) = mean over x of min over y of ‖x − y‖², plus the same with X and Y exchanged. The source is Fan, Su and
    Guibas, CVPR 2017, Section 4.1, with means for sums, so that sizes may differ. A distance of 0 does not mean that
    elements occur equally often.

    Shapes: predicted.values (N, d), target.values (M, d), as many sets in both -> (B,). Two empty sets have distance 0.
    Raises: TypeError or ValueError for other shapes, devices or dtypes, or if exactly one set of a pair is empty.

    Example:
        >>> chamfer_distance(Ragged.from_sets([[[0.0], [1.0]]]), Ragged.from_sets([[[0.0]]]))
        tensor([0.5000])
    """
    _check_pairs(predicted, target, "chamfer_distance", empty="a nearest neighbour")

    def nearest(a: Ragged, b: Ragged) -> Tensor:
        distances, real = _squared_distances(a, b)
        if distances.numel() == 0:
            return distances.sum((1, 2))
        beyond = distances.masked_fill(~real, torch.inf)
        return _mean(beyond.amin(2), real.any(2)) + _mean(beyond.amin(1), real.any(1))

    return _of_like_sizes(nearest, predicted, target).to(predicted.dtype)


def assignment_distance(predicted: Ragged, target: Ragged, *, unmatched: float | None = None) -> Tensor:
    """Returns the cost of the best one-to-one assignment of each pair of sets, (B,), by the Hungarian method.

    The cost is the least Σ ‖x_i − y_σ(i)‖² over assignments σ, divided by the larger size. It is the loss of DSPN
    (Zhang, Hare and Prügel-Bennett, NeurIPS 2019) and the matching of DETR (Carion et al., ECCV 2020, Section 3.1).
    scipy solves it on the CPU. The gradient is that of the assignment found.

    Args:
        unmatched: the cost of each element of the larger set that has no partner. None refuses sizes that differ.

    Shapes: as ``chamfer_distance``.
    Raises:
        TypeError: for arguments that are not sets.
        ValueError: for other shapes, devices or dtypes, or values that are not finite.
        ValueError: for sizes that differ without ``unmatched``, or an ``unmatched`` that is not a number >= 0.

    Example:
        >>> two = Ragged.from_sets([[[0.0], [1.0]]])
        >>> assignment_distance(two, Ragged.from_sets([[[1.0], [0.5]]])), assignment_distance(
        ...     two, Ragged.from_sets([[[1.0]]]), unmatched=3.0
        ... )
        (tensor([0.1250]), tensor([1.5000]))
    """
    _check_pairs(predicted, target, "assignment_distance")
    if unmatched is not None and not (isinstance(unmatched, int | float) and unmatched >= 0):
        raise ValueError(f"assignment_distance expects unmatched as a number >= 0, or None; got {unmatched!r}.")
    sizes = list(zip(predicted.sizes, target.sizes, strict=True))
    if unmatched is None and (b := next((b for b, (n, m) in enumerate(sizes) if n != m), None)) is not None:
        raise ValueError(
            f"assignment_distance expects pairs of sets of one size; got sizes {sizes[b][0]} and {sizes[b][1]} for "
            f"pair {b}. Give unmatched=, the cost of an element without a partner, or use chamfer_distance."
        )
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - takes a while to import

    def matched(a: Ragged, b: Ragged) -> Tensor:
        distances, real = _squared_distances(a, b)
        costs = distances.detach().where(real, 0).cpu()  # distances to padding may overflow
        if not bool(costs.isfinite().all()):
            raise ValueError("assignment_distance expects finite values; got NaN or infinity. Check the sets.")
        sums = distances.new_zeros(len(a))
        chosen: list[Tensor] = []
        for number, (n, m) in enumerate(zip(a.sizes, b.sizes, strict=True)):
            rows, columns = (torch.from_numpy(i) for i in linear_sum_assignment(costs[number, :n, :m].numpy()))
            chosen.append(torch.stack((torch.full_like(rows, number), rows, columns)))
        if chosen:
            numbers, i, j = torch.cat(chosen, 1).to(distances.device)
            sums = sums.index_add(0, numbers, distances[numbers, i, j])
        return sums

    found = _of_like_sizes(matched, predicted, target)
    alone = found.new_tensor([abs(n - m) for n, m in sizes]) * (unmatched or 0.0)
    return ((found + alone) / found.new_tensor([max(n, m, 1) for n, m in sizes])).to(predicted.dtype)


def energy_distance(predicted: Ragged, target: Ragged) -> Tensor:
    """Returns the energy distance of each pair of sets, (B,), taken as empirical distributions.

    D(X, Y) = 2 E‖x − y‖ − E‖x − x'‖ − E‖y − y'‖ (Székely and Rizzo, J. Stat. Plan. Inference 2013, Eq. 2.1). It is
    never negative, and 0 only for sets whose elements have the same frequencies. Sizes may differ.

    Shapes: as ``chamfer_distance``.
    Raises: as ``chamfer_distance``.

    Example:
        >>> energy_distance(Ragged.from_sets([[[0.0], [1.0]]]), Ragged.from_sets([[[0.0]]]))
        tensor([0.5000])
    """
    _check_pairs(predicted, target, "energy_distance", empty="a distribution")

    def mean_distance(a: Ragged, b: Ragged) -> Tensor:
        squared, real = _squared_distances(a, b)
        has_slope = real & (squared != 0)  # the root has none at 0; NaN stays NaN
        roots = torch.where(has_slope, torch.where(has_slope, squared, 1).sqrt(), 0)
        return _mean(roots.flatten(1), real.flatten(1))

    def energy(a: Ragged, b: Ragged) -> Tensor:
        return 2 * mean_distance(a, b) - (mean_distance(a, a) + mean_distance(b, b))

    return _of_like_sizes(energy, predicted, target).to(predicted.dtype)


def _of_like_sizes(distance: Callable[[Ragged, Ragged], Tensor], predicted: Ragged, target: Ragged) -> Tensor:
    """Returns the distance of each pair of sets, (B,), computed for pairs of like sizes together.

    Padding grows with the largest set. One of 10^4 elements beside a thousand of one element would fill 400 GB.
    """
    largest = [max(pair) for pair in zip(predicted.sizes, target.sizes, strict=True)]
    order = sorted(range(len(largest)), key=largest.__getitem__)
    pieces: list[list[int]] = [[]]
    for b in order:
        if pieces[-1] and (len(pieces[-1]) + 1) * largest[b] ** 2 > MAX_PADDED:
            pieces.append([])
        pieces[-1].append(b)
    if len(pieces) == 1:
        return distance(predicted, target)
    found = torch.cat([distance(predicted[piece], target[piece]) for piece in pieces])
    return found[torch.tensor(order, device=found.device).argsort()]


def _mean(x: Tensor, real: Tensor) -> Tensor:
    """Returns the mean of x (B, n) over its real entries; 0 without real entries."""
    return torch.where(real, x, 0).sum(1) / real.sum(1).clamp(min=1)


def _squared_distances(a: Ragged, b: Ragged) -> tuple[Tensor, Tensor]:
    """Returns ‖a_i − b_j‖² of each pair of sets, (B, n, m), and True where both elements are real.

    They are float32 for half precision, in which sums of them would overflow, or end at 256.
    """
    (x, of_a), (y, of_b) = a.map(widened).to_padded(), b.map(widened).to_padded()
    return (x[:, :, None] - y[:, None]).square().sum(3), of_a[:, :, None] & of_b[:, None]


def _check_pairs(predicted: Ragged, target: Ragged, owner: str, empty: str = "") -> None:
    check_sets(predicted, owner)
    check_sets(target, owner)
    for sets in (predicted, target):
        if sets.values.dim() != 2 or not sets.dtype.is_floating_point:
            raise ValueError(f"{owner} expects elements (N, d) of floating point; got {sets!r}. Convert with .to().")
    if (len(predicted), predicted.values.shape[1]) != (len(target), target.values.shape[1]):
        raise ValueError(f"{owner} expects as many sets, and features, in both; got {predicted!r} and {target!r}.")
    if (predicted.dtype, predicted.device) != (target.dtype, target.device):
        raise ValueError(f"{owner} expects one dtype and device; got {predicted!r} and {target!r}. Use .to().")
    if not empty:
        return
    for b, (n, m) in enumerate(zip(predicted.sizes, target.sizes, strict=True)):
        if (n == 0) != (m == 0):
            raise ValueError(
                f"{owner} expects both sets of a pair to be empty, or neither; got sizes {n} and {m} for pair {b}. "
                f"An empty set has no element for {empty}: leave the pair out."
            )
