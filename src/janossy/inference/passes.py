"""predict_passes: the mean over passes of a model that draws anew at every call, with its error (Remark 2.2)."""

from collections.abc import Callable
from math import inf

import torch
from torch import Tensor

from janossy.checks import check_flag, check_integer
from janossy.inference.error_bars import Sample
from janossy.inference.prediction import Link, Prediction, change_probability, named_link
from janossy.orderings.source import drawing_anew
from janossy.sets.transfer import widest


@torch.no_grad()
def predict_passes(
    run: Callable[[], Tensor],
    num_passes: int = 20,
    *,
    link: str | Link | None = None,
    keep_outputs: bool = False,
) -> Prediction:
    """Estimates E[link(run())] by num_passes calls of a model that draws permutations or neighbours at every call.

    It is the ``predict`` of ``JanossyAggregation`` in layers of torch_geometric, of ``GraphSAGE``, and of sets of sets:
    a pass draws the orders of every level, so the standard error counts all of them. The passes are independent, and
    ``Prediction`` counts them as its permutations and as its blocks. Vertices that share embeddings have correlated
    errors: an error bar is valid for its own vertex. Call ``model.eval()`` before. ``run`` hides the model, so active
    dropout would be averaged too.

    Args:
        run: a function that returns the outputs of the same vertices, in the same order, at every call.
        num_passes: the number of calls. The standard error falls as 1/√num_passes; it is NaN for one pass.
        link: the function applied to each pass's outputs before averaging: "softmax" or "sigmoid" for logits, any
            function (·, out) -> (·, out'), or None.
        keep_outputs: True to return the passes too, as ``outputs`` and ``sample``.

    Shapes: run() (B, out) -> mean (B, out).
    Invariance: unbiased for the mean over all draws. ``torch.manual_seed`` before the call makes it repeatable.
    Cost: num_passes calls, without gradients; num_passes·B·out numbers are held, up to four times.
    Raises:
        TypeError: if run is not a function or num_passes not an integer.
        ValueError: if num_passes < 1, for an unknown link, or if run() does not give outputs (B, out) of one shape.
        ValueError: if a layer's orderings have a seed, as every pass would then read the same orders.

    Example:
        >>> graph = Neighbourhoods.from_edge_index(torch.tensor([[1, 2, 0, 0], [0, 0, 1, 2]]))
        >>> model, x, vertices = GraphSAGE(5, 3, aggregation="lstm").eval(), torch.randn(3, 5), torch.tensor([0, 2])
        >>> prediction = predict_passes(lambda: model(x, graph, vertices), 20, link="softmax")
        >>> prediction.mean.shape, prediction.standard_error.shape, prediction.change_probability.shape
        (torch.Size([2, 3]), torch.Size([2, 3]), torch.Size([2]))

        Sets of sets, here seven slides of three patients:

        >>> slides, outer = JanossyPooling(GRU(5, 8), Sampled(1)).eval(), JanossyPooling(GRU(8, 2), Sampled(1)).eval()
        >>> patches = Ragged.from_sizes(torch.randn(20, 5), [3, 2, 4, 2, 1, 3, 5])
        >>> predict_passes(lambda: outer(Ragged.from_sizes(slides(patches), [2, 4, 1])), 20).standard_error.shape
        torch.Size([3, 2])
    """
    if not callable(run):
        raise TypeError(
            "predict_passes expects a function of no arguments that gives the outputs of a new pass; got "
            f"{type(run).__name__}. Write predict_passes(lambda: model(x, edge_index))."
        )
    check_integer("predict_passes", "num_passes", num_passes, 1)
    check_flag("predict_passes", "keep_outputs", keep_outputs)
    linked = named_link(link, "predict_passes")
    passes: list[Tensor] = []
    with drawing_anew("predict_passes"):
        for _ in range(num_passes):
            passes.append(run())
            _check(passes[-1], passes[0])
    num_vertices, device = len(passes[0]), passes[0].device
    sample = Sample(
        linked(torch.cat(passes)),
        torch.arange(num_vertices, device="cpu").repeat(num_passes),
        torch.arange(num_passes, device="cpu").repeat_interleave(num_vertices),
        torch.full((num_vertices,), inf, dtype=widest(device), device=device),
    )
    return Prediction(
        sample.mean,
        sample.standard_error,
        sample.num_draws,
        sample.num_blocks,
        torch.ones(num_vertices, dtype=torch.bool, device=device),
        change_probability(sample, link),
        sample.padded() if keep_outputs else None,
        sample=sample if keep_outputs else None,
    )


def _check(outputs: Tensor, first: Tensor) -> None:
    got = f"shape {tuple(outputs.shape)}" if isinstance(outputs, Tensor) else type(outputs).__name__
    if not isinstance(outputs, Tensor) or outputs.dim() != 2:
        raise ValueError(
            f"predict_passes expects run() to give outputs (B, out); got {got}. Of a single output, give (B, 1)."
        )
    if outputs.shape != first.shape:
        raise ValueError(
            f"predict_passes expects the same vertices at every pass, in the same order; got {got} after "
            f"{tuple(first.shape)}. A loader that run() reads takes shuffle=False."
        )
