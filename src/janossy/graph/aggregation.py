"""JanossyAggregation: Janossy pooling of neighbourhoods, for torch_geometric's layers."""

from typing import cast

import torch
from torch import Tensor, nn

from janossy.checks import check_flag, check_integer
from janossy.evaluate import Evaluator, Function
from janossy.evaluate.lookup import Lookup
from janossy.functions.weights import draw_anew
from janossy.nn.pooling import JanossyPooling
from janossy.orderings import Orderings, Sampled
from janossy.orderings.contract import check_orderings, modules_of, repeatable
from janossy.sets import Ragged

try:
    from torch_geometric.nn.aggr import Aggregation
except ImportError as error:
    raise ImportError("janossy.graph needs torch_geometric: pip install janossy[graph]") from error

AVERAGES = ("mean", "logmeanexp")
"""The reductions whose scale does not depend on the number of permutations."""


class JanossyAggregation(Aggregation):
    """f̄(h) = the mean of f(h_π) over orderings π of each neighbourhood h (Eq. 3), for any ``MessagePassing``.

    It replaces ``aggr="lstm"``: ``SAGEConv(d, c, aggr=JanossyAggregation(LSTM(d, d)))``. Nothing is padded, so a
    neighbourhood's result does not depend on the others in its batch. The index need not be sorted.

    Args:
        f: the function of a sequence: any module mapping rows (T, L, d) to (T, c). ``SAGEConv(d, …)`` needs c = d.
        num_permutations: the random permutations of each neighbourhood, drawn anew at every call (π-SGD).
        num_permutations_eval: the number in evaluation mode, if another. This averages within the layer. The paper
            averages the outputs of several forward passes (Remark 2.2).
        orderings: orderings to average instead: ``Tuples(2)``, ``Canonical()``, ``Sampled(8, seed=0)``, ….
        orderings_eval: the orderings in evaluation mode. ``num_permutations_eval=m`` is short for ``Sampled(m)``.
        evaluate: the evaluator, as for ``JanossyPooling``.
        reduce: "mean", "sum", "max" or "logmeanexp".
        fixed_in_eval: True for the same permutations at every call in evaluation mode, as in ``JanossyPooling``.

    Layers call ``reset_parameters`` when they are built. It draws the weights of f and of the orderings anew, by
    their ``reset_parameters`` or those of submodules. Load trained weights afterwards.

    Inside a model under ``torch.compile`` it is not compiled (a graph break). Compiling would specialise on the sizes
    of the neighbourhoods, anew for each batch. The layers around it are compiled.

    Shapes: x (N, d), and index (N,) or ptr (B + 1,) -> (B, c), B = dim_size or max(index) + 1. If both are given, ptr
        is used. max_num_elements, the room that padding would need, is not used. Messages of several heads,
        (N, heads, d) -> (B, heads, c), are pooled head by head, by the same f. ``dim`` is the dimension of the N
        elements (the last but one, or 0).
    Invariance: unbiased for the mean over all permutations; that of ``orderings``, if given. An empty neighbourhood
        gives 0, or, under orderings of k elements, f(0, …, 0).
    Raises:
        ImportError: on import, without torch_geometric.
        ValueError: for orderings beside numbers of permutations, or a reduce whose scale would differ in evaluation
            mode.
        ValueError: for an x of fewer dimensions, or an index outside dim_size.

    Example:
        >>> aggregation = JanossyAggregation(GRU(4, 16), num_permutations=2)
        >>> aggregation(torch.randn(5, 4), torch.tensor([2, 0, 2, 2, 0]), dim_size=4).shape
        torch.Size([4, 16])
    """

    def __init__(
        self,
        f: Function,
        *,
        num_permutations: int = 1,
        num_permutations_eval: int | None = None,
        orderings: Orderings | None = None,
        orderings_eval: Orderings | None = None,
        evaluate: str | Evaluator = "auto",
        reduce: str = "mean",
        fixed_in_eval: bool = False,
    ) -> None:
        super().__init__()
        if orderings is not None and (num_permutations != 1 or num_permutations_eval is not None):
            raise ValueError(
                "JanossyAggregation expects numbers of permutations or orderings, not both; "
                f"got num_permutations={num_permutations}, num_permutations_eval={num_permutations_eval} and "
                f"orderings={orderings}. Give the number to the orderings: Sampled(num)."
            )
        if reduce is None:
            raise ValueError(
                "JanossyAggregation expects a reduce, as it gives one vector per neighbourhood; got reduce=None. "
                "Choose a reduce."
            )
        check_integer("JanossyAggregation", "num_permutations", num_permutations, 1)
        check_integer("JanossyAggregation", "num_permutations_eval", num_permutations_eval, 1, optional=True)
        if orderings_eval is not None:
            check_orderings(orderings_eval, "JanossyAggregation")
        if num_permutations_eval is not None:
            if orderings_eval is not None:
                raise ValueError(
                    "JanossyAggregation expects num_permutations_eval or orderings_eval, not both; got "
                    f"{num_permutations_eval} and {orderings_eval}. Give the number to the orderings: Sampled(num)."
                )
            orderings_eval = Sampled(num_permutations_eval)
        if orderings_eval is not None and reduce not in AVERAGES:
            raise ValueError(
                f"num_permutations_eval and orderings_eval expect a reduce among {', '.join(AVERAGES)}, whose scale "
                f"does not change with the number of orderings; got {reduce!r}. Leave them out, or choose one of those."
            )
        check_flag("JanossyAggregation", "fixed_in_eval", fixed_in_eval)
        if fixed_in_eval and orderings_eval is not None:
            orderings_eval = repeatable(orderings_eval.in_prediction(), "JanossyAggregation")
        self.pooling = JanossyPooling(
            f,
            Sampled(num_permutations) if orderings is None else orderings,
            evaluate=evaluate,
            reduce=reduce,
            fixed_in_eval=fixed_in_eval and orderings_eval is None,
        )
        self.orderings_eval = orderings_eval
        if modules := modules_of(orderings_eval):
            self.of_orderings_eval = nn.ModuleList(modules)

    def reset_parameters(self) -> None:
        """Draws the weights of f, and those of the orderings, anew."""
        draw_anew(self)

    @torch.compiler.disable(reason="the sizes of the neighbourhoods would be compiled anew for each batch")  # type: ignore[untyped-decorator, unused-ignore]
    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        if x.dim() < 2 or dim in (-1, x.dim() - 1):
            raise ValueError(
                "JanossyAggregation expects elements (N, d), or (N, heads, d), and dim as the dimension of the N; "
                f"got shape {tuple(x.shape)} and dim={dim}. The last dimension holds each element's features."
            )
        elements = x.movedim(dim, 0)
        sets = _neighbourhoods(elements, index, ptr, dim_size)
        pooled = self.pooling(_each_head(sets), orderings=None if self.training else self.orderings_eval)
        heads = elements.shape[1:-1]
        # PyG's layers call view on the result, so it must be contiguous.
        return cast(Tensor, pooled.view(*heads, len(sets), pooled.shape[-1]).movedim(len(heads), dim).contiguous())

    @torch.compiler.disable(reason="the sizes of the neighbourhoods would be compiled anew for each batch")  # type: ignore[untyped-decorator, unused-ignore]
    def read(self, x: Tensor, sources: Tensor, targets: Tensor, dim_size: int) -> Tensor:
        """Returns the result of a call with x[sources] (E, d) and index ``targets``, projecting each row of x once.

        Shapes: x (V, d), sources and targets (E,) -> (dim_size, c).
        """
        sets = Ragged.from_index(sources, targets, dim_size)
        return cast(Tensor, self.pooling(Lookup(x, sets), orderings=None if self.training else self.orderings_eval))

    def __repr__(self) -> str:
        # A layer keeps this as its attribute `aggr`, so it stays one line, whatever f is.
        pooling = self.pooling
        shown = [getattr(pooling.f, "__name__", type(pooling.f).__name__), *_named(pooling.orderings)]
        if self.orderings_eval is not None:
            shown += _named(self.orderings_eval, "_eval")
        if pooling.choice.asked is not None:
            shown.append(f"evaluate={pooling.choice.said!r}")
        if pooling.reduce != "mean":
            shown.append(f"reduce={pooling.reduce!r}")
        if pooling.fixed_in_eval:
            shown.append("fixed_in_eval=True")
        return f"{type(self).__name__}({', '.join(shown)})"


def _named(orderings: Orderings, mode: str = "") -> list[str]:
    if not isinstance(orderings, Sampled) or orderings != Sampled(orderings.num_permutations):
        return [f"orderings{mode}={orderings}"]
    is_default = not mode and orderings.num_permutations == 1
    return [] if is_default else [f"num_permutations{mode}={orderings.num_permutations}"]


def _neighbourhoods(x: Tensor, index: Tensor | None, ptr: Tensor | None, dim_size: int | None) -> Ragged:
    if ptr is not None:
        return Ragged.from_ptr(x, ptr)
    if index is None:
        return Ragged.from_sizes(x, [len(x)])
    return Ragged.from_index(x, index, dim_size)


def _each_head(sets: Ragged) -> Ragged:
    """Returns sets of elements (*heads, d) as sets of elements (d,), one head's sets after the other's."""
    if sets.values.dim() == 2:
        return sets
    values = sets.values.movedim(0, -2)
    num_heads = values.shape[:-2].numel()
    return Ragged.from_sizes(values.flatten(0, -2), sets.sizes * num_heads)
