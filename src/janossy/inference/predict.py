"""predict: the mean over draws of link(network(sets)), with its error, until it is small enough (Remark 2.2)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from janossy.checks import check_flag, check_generator, check_integer, check_number
from janossy.evaluate import MEMORY_BUDGET
from janossy.evaluate.validation import check_context
from janossy.inference.draws import Control, Draws, until
from janossy.inference.error_bars import check_confidence
from janossy.inference.models import drawing_beside_pooling, modules_in, set_function, unwrapped
from janossy.inference.passes import predict_passes
from janossy.inference.prediction import Link, Prediction, change_probability, exact, named_link, of_members, together
from janossy.nn.modes import evaluating
from janossy.nn.network import JanossyNetwork
from janossy.orderings import RandomOrderings
from janossy.orderings.contract import Orderings, as_random, check_orderings, modules_of
from janossy.sets import Ragged, check_ragged
from janossy.sets.transfer import upload
from janossy.stack import Stack

NUM_PERMUTATIONS = 20
"""The default number of permutations for a network that is trained with one permutation."""

BLOCKS = 5
"""The default number of independent blocks of an error bar."""

MAX_ELEMENTS = 1_000_000
"""The most elements of one batch, as h gives a vector per element."""

POSITION_BYTES = 32
"""The bytes per position of a row while permutations are drawn: random bits, their order, and copies of the order."""


@torch.no_grad()
def predict(
    network: JanossyNetwork | Stack | nn.Module | Callable[..., Tensor],
    sets: Ragged,
    num_permutations: int | None = None,
    *,
    orderings: Orderings | None = None,
    context: Tensor | None = None,
    link: str | Link | None = None,
    tolerance: float | Tensor | None = None,
    confidence: float = 0.95,
    block: int | None = None,
    control: Control | None = None,
    seed: int | None = None,
    generator: torch.Generator | Sequence[torch.Generator] | None = None,
    batch_size: int | None = None,
    keep_outputs: bool = False,
) -> Prediction:
    """Estimates E[link(network(sets))] over draws of orderings, by a mean over several draws (Remark 2.2).

    One draw is all rows that network(sets) averages before ρ, as in training:

    - with num = 1, one permutation. The mean is E_π[link(ρ(f(h(x)_π)))] (Eq. 11): a mean of ρ, not ρ of a mean;
    - with num > 1, a group of num permutations, reduced and weighted as in the pooling. The mean over independent
      groups is that of link(ρ(mean_s f(h(x)_{π_s}))). If ρ is not affine, that is another number;
    - with exact_last, all ends of a permutation;
    - with ``ImportanceSampled``, rows times their weights.

    If a set has no more orders than num_permutations (n! <= 20: up to three elements), each is read once. The same
    holds if a recurrence reads all orders as a tree in no more steps (n = 4). The mean is then exact, its error 0.

    h is computed once. Without a tolerance, all draws are computed in one call. Under exact orderings the result is
    link(network(sets)).

    If h, the encoder or rho has a layer that draws too, such as a ``JanossyEquivariant`` with ``Sampled(1)``, a draw is
    a whole call of the network, in which all layers draw anew. The standard error then counts all of them. For sets of
    sets there is ``predict_passes``.

    For a compiled network, an ``AveragedModel`` or a ``DataParallel``, the network inside predicts. Any other function
    is called as model(sets, orderings), or model(sets, orderings, context=context) with a context. It needs
    ``orderings=``, as its own cannot be seen. It must use the orderings that it is given: they hold the draws.

    The network is put into evaluation mode, and afterwards back into its own mode. Nothing else of it changes. So
    several threads may predict with one network, each with its own orderings. The modules within a function are not
    seen: call ``eval()`` on each before.

    For a ``Stack`` the mean is that of all networks, each of which predicts as if by itself. The result also has the
    members' means and their standard deviation.

    Args:
        network: a ``JanossyNetwork``, a ``Stack``, or a function of sets and orderings.
        num_permutations: permutations per set; with a tolerance, the most. The number is rounded up to whole groups of
            num. None for 20, or 5 groups of num.
        orderings: orderings to average over in place of the network's own.
        context: features of each set as a whole, which the network's rho reads beside the pooled vector.
        link: the function applied to each draw's output before averaging. "softmax" or "sigmoid" is for a classifier
            that returns logits. Otherwise any function (·, out) -> (·, out'), or None.
        tolerance: the half width of intervals at which a set stops, a number, or one per output. A set stops when the
            interval of each of its outputs is that narrow. Nothing more is then computed for it. A set whose outputs
            are not finite stops too.
        confidence: the probability that all intervals of an output hold at the looks at which ``predict`` may stop
            (Bonferroni over these few looks). ``Prediction.margin`` gives a single interval of any confidence.
        block: the number of permutations that are sampled together and count as one for the standard error. By default
            a fifth of num_permutations, and 2 with a tolerance. Larger blocks make a better mean and a rougher error;
            ``block=num_permutations`` makes the best mean, without an error (docs/sampling.md). With num > 1, the
            blocks are the groups.
        control: a ``ControlVariate``: its mean over each draw is subtracted from the draw's output, and its exact mean
            added.
        seed: fixes the permutations, for a deterministic and exactly permutation-invariant prediction.
        generator: the source of the permutations without a seed; for a ``Stack``, one for all in turn or one per
            network.
        batch_size: sets per batch. None for as many as stay below the orderings' max_rows, a million elements and, if
            sets are sampled, the pooling's memory_budget. With a seed the result does not depend on it.
        keep_outputs: True to return the draws too, as ``outputs``, and with their blocks as ``sample``. Not for a
            ``Stack``.

    Shapes: sets.values (N, *features), context (B, *any) -> mean (B, out).
    Invariance: unbiased for the mean over all draws, whatever the scheme; exact with a seed. With a tolerance the mean
        is only nearly unbiased, as the number of permutations depends on their outputs.
    Cost: h once; f for num_permutations rows per set, or as many as the tolerance takes; ρ once per draw.
    Raises:
        TypeError: for a network, sets or an argument of another type.
        ValueError: if num_permutations < 1, batch_size < 1, tolerance <= 0, or confidence is not between 0 and 1.
        ValueError: if there is a tolerance and a set with a single block, or a block beside num > 1.
        ValueError: for a context that does not have one row per set, an unknown link, or a control with exact
            orderings.
        ValueError: for a seed that the orderings do not take, both a seed and a generator, or a generator on another
            device.
        ValueError: for a tolerance, block, control, seed or generator if layers beside the pooling draw too.
    """
    network = unwrapped(network)
    if isinstance(network, Stack):
        if control is not None or keep_outputs:
            given = "a control" if control is not None else "keep_outputs=True"
            raise ValueError(
                f"predict expects, with a Stack, no control and no keep_outputs, which are of one network; got "
                f"{given}. Predict with each of stack.unstack()."
            )
        sources = generator if isinstance(generator, Sequence) else [generator] * len(network)
        if len(sources) != len(network):
            raise ValueError(
                f"predict expects one generator, or {len(network)}, one per network; got {len(sources)}. Give as many."
            )
        options: dict[str, Any] = {
            "orderings": orderings,
            "context": context,
            "link": link,
            "tolerance": tolerance,
            "confidence": confidence,
        }
        options |= {"block": block, "seed": seed, "batch_size": batch_size}
        each = zip(network.members(), sources, strict=True)
        predictions = [predict(member, sets, num_permutations, generator=source, **options) for member, source in each]
        return of_members(predictions, same_draws=seed is not None)
    model = network if isinstance(network, JanossyNetwork) else set_function(network, orderings, context)
    if isinstance(generator, Sequence):
        raise TypeError(f"predict expects one generator for one network; got {len(generator)}. Give one.")
    check_ragged(sets, "predict")
    check_context(context, sets, "predict")
    own = model.pooling.orderings if isinstance(model, JanossyNetwork) else None
    averaged = cast(Orderings, own if orderings is None else orderings)
    check_orderings(averaged, "predict")
    all_of_them = averaged.in_prediction()
    drawn = as_random(all_of_them, "predict")
    check_integer("predict", "num_permutations", num_permutations, 1, optional=True)
    check_integer("predict", "block", block, 1, "permutations", optional=True)
    check_integer("predict", "seed", seed, 0, optional=True)
    check_integer("predict", "batch_size", batch_size, 1, "sets", optional=True)
    check_generator("predict", generator, sets.device)
    check_flag("predict", "keep_outputs", keep_outputs)
    _check_tolerance(tolerance, confidence)
    linked = named_link(link, "predict")
    if drawn is None and control is not None:
        raise ValueError(
            f"predict expects a control only where permutations are sampled; got {averaged}, which are exact. Leave "
            "the control out."
        )
    if missing := [part for part in ("rows", "mean") if control is not None and not hasattr(control, part)]:
        raise TypeError(
            f"predict expects as control a ControlVariate, or another with rows and mean; got {control!r}, without "
            f"{' and '.join(missing)}. fit_control_variate makes one."
        )
    if isinstance(model, JanossyNetwork) and drawn is not None and drawn.num_permutations > 1:
        drawn = cast(RandomOrderings, model.pooling.in_evaluation(drawn))
    if others := drawing_beside_pooling(model):
        options = {"tolerance": tolerance, "block": block, "control": control, "seed": seed, "generator": generator}
        _check_passes(others, [name for name, value in options.items() if value is not None])
    num_each = 1 if drawn is None else drawn.num_permutations
    num, block = (0, None) if drawn is None else _plan(drawn, num_permutations, block, tolerance is not None)
    if others and drawn is None:
        num = num_permutations or NUM_PERMUTATIONS

    def of(chosen: Ragged, context: Tensor | None) -> Prediction:
        if others:
            run = partial(model, chosen, all_of_them if drawn is None else drawn, context=context)
            passes = predict_passes(run, num, link=link, keep_outputs=keep_outputs)
            return replace(passes, num_permutations=passes.num_permutations * num_each)
        if drawn is None:
            return exact(linked(model(chosen, all_of_them, context=context)), keep_outputs)
        draws = Draws(
            model,
            drawn,
            chosen,
            num,
            linked,
            context=context,
            block=block,
            seed=seed,
            control=control,
            generator=generator,
            adaptive=tolerance is not None,
        )
        if tolerance is None:
            sample = draws.take(list(range(len(chosen))), draws.max_blocks)
            finished = torch.ones(len(chosen), dtype=torch.bool, device=chosen.device)
        else:
            sample, finished = until(draws, tolerance, confidence)
        rows_each = upload(
            torch.tensor([draws.num_rows[n] for n in chosen.sizes], dtype=torch.long, device="cpu"), chosen.device
        )
        return Prediction(
            sample.mean,
            sample.standard_error,
            sample.num_draws * rows_each,
            sample.num_blocks,
            finished,
            change_probability(sample, link),
            sample.padded() if keep_outputs else None,
            sample=sample if keep_outputs else None,
        )

    if batch_size is not None:
        batches = [slice(b, b + batch_size) for b in range(0, max(1, len(sets)), batch_size)]
    else:
        memory_budget = model.pooling.memory_budget if isinstance(model, JanossyNetwork) else MEMORY_BUDGET
        num_together = 0 if drawn is None else 1 if others else num
        batches = list(_batches(sets, all_of_them, num_together, memory_budget))
    with ExitStack() as modes:
        for module in (*modules_in(model), *modules_of(averaged)):
            modes.enter_context(evaluating(module))
        if len(batches) == 1:
            return of(sets, context)
        return together([of(sets[batch], None if context is None else context[batch]) for batch in batches])


def _plan(
    orderings: RandomOrderings, num_permutations: int | None, block: int | None, adaptive: bool
) -> tuple[int, int | None]:
    """Returns the number of draws, and the number of permutations in a block."""
    size = orderings.num_permutations
    num = num_permutations or (NUM_PERMUTATIONS if size == 1 else BLOCKS * size)
    num_draws = -(-num // size)
    if adaptive and num_draws < 2:
        raise ValueError(
            f"predict expects num_permutations >= {2 * size} with a tolerance, as one "
            f"{'permutation' if size == 1 else f'group of {size}'} has no error bar; got {num}. It is the most that a "
            "set may take: 20, or 100."
        )
    if size > 1:
        if block is not None:
            raise ValueError(
                f"predict draws groups of the network's num_permutations={size}, which are the blocks of its error "
                f"bar; got block={block}. Leave it out."
            )
        return num_draws, None
    if block is None:
        pair = max(1, min(2, num // 2))
        block = orderings.block or (pair if adaptive else num // BLOCKS // 2 * 2 or pair)
    return num_draws, block


def _batches(sets: Ragged, orderings: Orderings, num_draws: int, memory_budget: int) -> Iterator[slice]:
    """Yields slices of sets, one set at least, with elements, rows and memory for drawing within bounds.

    ``num_draws`` is 0 for orderings that are not random, whose rows need not be made.
    """
    max_rows, max_positions = orderings.max_rows, memory_budget // POSITION_BYTES
    rows = {n: max(1, num_draws) * orderings.num_rows(n) for n in set(sets.sizes)}
    positions = {n: num_draws and rows[n] * orderings.row_length(n) for n in rows}
    begin = num_elements = num_rows = num_positions = 0
    for b, n in enumerate(sets.sizes):
        num_elements, num_rows, num_positions = num_elements + n, num_rows + rows[n], num_positions + positions[n]
        is_full = num_elements > MAX_ELEMENTS or num_rows > max_rows or num_positions > max_positions
        if b > begin and is_full:
            yield slice(begin, b)
            begin, num_elements, num_rows, num_positions = b, n, rows[n], positions[n]
    yield slice(begin, len(sets))


def _check_passes(others: dict[str, RandomOrderings], given: list[str]) -> None:
    """Raises a ValueError if an option needs draws of the pooling's orderings alone."""
    if given:
        name, orderings = next(iter(others.items()))
        raise ValueError(
            f"predict expects no {' and no '.join(given)} for a network in which layers beside the pooling draw; got "
            f"{orderings} in {name}, and {given[0]}=. Leave {given[0]} out, or use Tuples, AllPermutations or a seed "
            f"in {name}."
        )


def _check_tolerance(tolerance: Any, confidence: Any) -> None:
    check_confidence(confidence)
    if tolerance is None:
        return
    if not isinstance(tolerance, Tensor):
        check_number("predict", "tolerance", tolerance, 0.1)
    numbers = tolerance if isinstance(tolerance, Tensor) else torch.as_tensor(tolerance, device="cpu")
    if not (numbers > 0).all():
        raise ValueError(f"predict expects a tolerance > 0, in the units of its outputs; got {tolerance}.")
