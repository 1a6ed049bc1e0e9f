"""JanossyAggregation: Janossy pooling of neighbourhoods, as torch_geometric's layers take it."""

from torch import Tensor

from janossy.evaluate import Evaluator, Function
from janossy.orderings import Orderings, Sampled
from janossy.pooling import JanossyPooling
from janossy.ragged import Ragged

try:
    from torch_geometric.nn.aggr import Aggregation
    from torch_geometric.nn.inits import reset
except ImportError as error:
    raise ImportError("janossy.graph needs torch_geometric: pip install janossy[graph]") from error

AVERAGES = ("mean", "logmeanexp")
"""The reductions whose result has the same scale however many permutations there are."""


class JanossyAggregation(Aggregation):
    """f̄(h) = the mean of f(h_π) over orderings π of each neighbourhood h (Eq. 3): for any ``MessagePassing``.

    In place of ``aggr="lstm"``: ``SAGEConv(d, c, aggr=JanossyAggregation(LSTM(d, d)))``. Nothing is padded, so a
    neighbourhood's result does not depend on the others in its batch, and index need not be sorted.

    Args:
        f: WHAT is applied to a sequence: any module mapping rows (T, L, d) to (T, c). ``SAGEConv(d, …)`` wants c = d.
        num_permutations: the random permutations of each neighbourhood, drawn anew at every call (π-SGD).
        num_permutations_eval: as many in evaluation mode instead. This averages within the layer; the paper averages
            the outputs of several forward passes (Remark 2.2).
        orderings: WHICH sequences are averaged instead: ``Tuples(2)``, ``Canonical()``, ``Sampled(8, seed=0)``, ….
        evaluate: HOW, as for ``JanossyPooling``.
        reduce: "mean", "sum", "max" or "logmeanexp".

    ``reset_parameters``, which layers call as they are built, draws f's weights anew by its own ``reset_parameters``
    or, failing that, its submodules'. Load trained weights afterwards.

    Shapes: x (N, d), and index (N,) or ptr (B + 1,) -> (B, c), B = dim_size or max(index) + 1. ptr is taken if both
        are given; max_num_elements, the room that padding would need, is not.
    Invariance: unbiased for the mean over all permutations; that of ``orderings``, if given. An empty neighbourhood
        gives 0, or, under orderings of k elements, f(0, …, 0).
    Raises: ImportError, on import, without torch_geometric; ValueError for orderings beside numbers of permutations, a
        reduce whose scale would differ in evaluation mode, an x that is not (N, d), or an index outside of dim_size.

    Example:
        >>> aggregation = JanossyAggregation(GRU(4, 16), num_permutations=2)
        >>> aggregation(torch.randn(5, 4), torch.tensor([2, 0, 2, 2, 0]), dim_size=4).shape
        torch.Size([4, 16])
    """

    def __init__(
        self,
        f: Function,
        num_permutations: int = 1,
        *,
        num_permutations_eval: int | None = None,
        orderings: Orderings | None = None,
        evaluate: str | Evaluator = "auto",
        reduce: str = "mean",
    ) -> None:
        super().__init__()
        if orderings is not None and (num_permutations != 1 or num_permutations_eval is not None):
            raise ValueError(
                "JanossyAggregation expects numbers of permutations or orderings, not both; "
                f"got num_permutations={num_permutations}, num_permutations_eval={num_permutations_eval} and "
                f"orderings={orderings}. Give the number to the orderings: Sampled(num)."
            )
        if reduce is None:
            raise ValueError("JanossyAggregation gives one vector a neighbourhood; got reduce=None. Choose a reduce.")
        if num_permutations_eval is not None and reduce not in AVERAGES:
            raise ValueError(
                f"num_permutations_eval expects a reduce among {', '.join(AVERAGES)}, whose scale does not change "
                f"with the number of permutations; got {reduce!r}."
            )
        if orderings is None:
            orderings = Sampled(num_permutations)
        self.pooling = JanossyPooling(f, orderings, evaluate, reduce)
        self.orderings_eval = None if num_permutations_eval is None else Sampled(num_permutations_eval)

    def reset_parameters(self) -> None:
        reset(self.pooling)

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        self.assert_two_dimensional_input(x, dim)
        return self._pooling_now()(_neighbourhoods(x, index, ptr, dim_size))

    def _pooling_now(self) -> JanossyPooling:
        """The pooling of this mode: a second registered one would hold every weight twice."""
        pooling = self.pooling
        if self.training or self.orderings_eval is None:
            return pooling
        return JanossyPooling(pooling.f, self.orderings_eval, pooling.choice.asked or "auto", pooling.reduce)

    def __repr__(self) -> str:
        # A layer keeps this as its attribute `aggr`, so it stays one line, whatever f is.
        pooling = self.pooling
        f = getattr(pooling.f, "__name__", type(pooling.f).__name__)
        which = f"orderings={pooling.orderings}"
        if isinstance(pooling.orderings, Sampled) and pooling.orderings == Sampled(pooling.orderings.num):
            which = f"num_permutations={pooling.orderings.num}"
        evaluation = "" if self.orderings_eval is None else f", num_permutations_eval={self.orderings_eval.num}"
        return f"{type(self).__name__}({f}, {which}{evaluation}, reduce={pooling.reduce!r})"


def _neighbourhoods(x: Tensor, index: Tensor | None, ptr: Tensor | None, dim_size: int | None) -> Ragged:
    if ptr is not None:
        return Ragged.from_ptr(x, ptr)
    if index is None:
        return Ragged.from_sizes(x, [len(x)])
    if dim_size is not None and index.numel() and int(index.max()) >= dim_size:
        raise ValueError(
            f"JanossyAggregation expects an index below dim_size={dim_size}; got {int(index.max())}. "
            "Raise dim_size or drop those elements."
        )
    return Ragged.from_index(x, index, dim_size)
