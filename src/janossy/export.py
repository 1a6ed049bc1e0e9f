"""PaddedNetwork and export_onnx: networks of recurrences for torch.export, ONNX and torch.func.vmap."""

from collections.abc import Callable
from os import PathLike
from typing import cast

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan

from janossy.functions.structure import Direction, Recurrent, State, hooked, structure
from janossy.network import JanossyNetwork
from janossy.orderings import Canonical, Sampled
from janossy.orderings.sorting import Key
from janossy.ragged import Ragged

Stepped = tuple[State, Tensor]  # here, as torch.export cannot trace it where it is used

REDUCTIONS: dict[str | None, Callable[[Tensor], Tensor]] = {
    "mean": lambda rows: rows.mean(1),
    "sum": lambda rows: rows.sum(1),
    "max": lambda rows: rows.amax(1),
    "logmeanexp": lambda rows: rows.logsumexp(1) - torch.ones_like(rows).sum(1).log(),
}
"""As in ``evaluate.reduce``, for a number of rows that is known only when the exported network runs."""


class PaddedNetwork(nn.Module):
    """A ``JanossyNetwork`` of padded sets: one graph for any number of sets, sizes and permutations.

    The same numbers as ``network(Ragged.from_padded(x, mask))``, with the network's own parameters. It exports by
    ``torch.export`` and ``export_onnx``, runs under ``torch.func.vmap``, and can be differentiated twice: the
    recurrence goes cell by cell, as a loop in Python, or, when exported, as one ``scan`` of any length.

    Args:
        network: whose f is an RNN, GRU or LSTM, and whose orderings are Canonical, or Sampled without k, seed and
            exact_last.

    Shapes: x (B, n, *features), mask (B, n), bool, True where an element is real, anywhere in the set -> (B, out).
        For Sampled, noise (B, m, n) gives m permutations: permutation j of set b visits the real elements by
        increasing noise[b, j]. Without noise as many as Sampled says are drawn, independently; an exported graph needs
        noise.
    Invariance: that of the network's orderings. What padding holds, NaN even, changes no result and no gradient. h
        and the key see zeros in its place, whose results do not count: h must look at each element alone (a BatchNorm
        does so in evaluation), and what has parameters in it must be differentiable at zero.
    Raises: ValueError for another network, for inputs of other shapes, or in training if f drops out.

    Example:
        >>> network = JanossyNetwork(None, JanossyPooling(GRU(3, 8), Canonical()), nn.Linear(8, 1)).eval()
        >>> x, mask = torch.randn(2, 5, 3), torch.rand(2, 5) > 0.5
        >>> sizes = ({0: torch.export.Dim("B", min=0), 1: torch.export.Dim("n", min=0)},) * 2
        >>> program = torch.export.export(PaddedNetwork(network), (x, mask), dynamic_shapes=sizes)
        >>> program.module()(torch.randn(7, 9, 3), torch.ones(7, 9, dtype=torch.bool)).shape
        torch.Size([7, 1])
    """

    def __init__(self, network: JanossyNetwork) -> None:
        super().__init__()
        _check_network(network)
        self.network = network
        self.training = network.training

    def forward(self, x: Tensor, mask: Tensor, noise: Tensor | None = None) -> Tensor:
        self._check_inputs(x, mask, noise)
        pooling = self.network.pooling
        x = x.masked_fill(mask.reshape(*mask.shape, *(1,) * (x.dim() - 2)).logical_not(), 0)
        order = self._order(x.detach(), mask, noise)
        num_rows = order.shape[1]
        rows = _flat(_gather(self._elements(x, mask)[:, None].expand(-1, num_rows, -1, -1), order))
        sizes = _flat(mask.sum(1)[:, None].expand(-1, num_rows))
        values = _last_hidden(cast(Recurrent, structure(pooling.f)), rows, sizes).unflatten(0, order.shape[:2])
        return self.network.rho(REDUCTIONS[pooling.reduce](values))

    def _elements(self, x: Tensor, mask: Tensor) -> Tensor:
        """What f reads of each element, (B, n, d)."""
        elements = self.network.h(_flat(x)).unflatten(0, mask.shape)
        if self.network.pooling.append_size:
            sizes = mask.sum(1)[:, None, None].expand(-1, mask.shape[1], 1)
            elements = torch.cat((elements, sizes.to(elements.dtype)), dim=2)
        return elements.masked_fill(~mask[..., None], 0)

    def _order(self, x: Tensor, mask: Tensor, noise: Tensor | None) -> Tensor:
        """The positions (B, m, n) that each row visits in turn: those of the real elements, then the others."""
        orderings = self.network.pooling.orderings
        if noise is not None:
            columns = [noise]
        elif isinstance(orderings, Sampled):
            columns = [torch.randint(2**62, (mask.shape[0], orderings.num, mask.shape[1]), device=mask.device)]
        else:
            key = cast(Canonical, orderings).key
            columns = [column.unflatten(0, mask.shape)[:, None] for column in _columns(_flat(x), key)]
        num_rows = columns[0].shape[1] if columns else 1
        return _sorted_positions([(~mask).long()[:, None].expand(-1, num_rows, -1), *columns])

    def _check_inputs(self, x: Tensor, mask: Tensor, noise: Tensor | None) -> None:
        pooling = self.network.pooling
        if x.dim() < 2 or mask.dtype != torch.bool or mask.shape != x.shape[:2]:
            raise ValueError(
                "PaddedNetwork expects x (B, n, *features) and a bool mask (B, n), True where real; "
                f"got x {tuple(x.shape)} and a mask {tuple(mask.shape)} of {mask.dtype}."
            )
        if noise is None and isinstance(pooling.orderings, Sampled) and torch.compiler.is_exporting():
            raise ValueError(
                "PaddedNetwork exports Sampled with noise (B, m, n) as an input; got none: pass x, mask, noise."
            )
        if noise is not None and isinstance(pooling.orderings, Canonical):
            raise ValueError("PaddedNetwork takes no noise under Canonical, which draws nothing; pass x and mask only.")
        if noise is not None and (noise.dim() != 3 or noise.shape[::2] != mask.shape):
            raise ValueError(
                f"PaddedNetwork expects noise (B, m, n) for a mask {tuple(mask.shape)}; got {tuple(noise.shape)}."
            )
        if (dropout := cast(Recurrent, structure(pooling.f)).dropout) > 0:
            raise ValueError(f"PaddedNetwork applies no dropout; got dropout={dropout} in training: call eval().")


def export_onnx(
    network: JanossyNetwork,
    path: str | PathLike[str],
    example: "Ragged | tuple[Tensor, Tensor]",
    *,
    opset: int | None = None,
) -> None:
    """Write the network, in evaluation mode, as an ONNX model of padded sets: a ``PaddedNetwork``.

    Inputs are named x and mask, and noise if the orderings are Sampled; the output is y. All sizes are dynamic: the
    number of sets, of elements and of permutations. Needs the packages of ``janossy[onnx]``.

    Args:
        path: of the file, which holds the weights too.
        example: sets, or x and mask, whose features, dtype and device the model takes; their sizes do not matter.
        opset: the version of ONNX's operators; None for torch's default.

    Shapes: x (B, n, *features), mask (B, n), noise (B, m, n) -> y (B, out).
    Invariance: that of the network's orderings.
    Raises: ImportError without the packages; ValueError as ``PaddedNetwork``.

    Example:
        >>> import tempfile
        >>> network = JanossyNetwork(None, JanossyPooling(GRU(3, 8), Canonical()), nn.Linear(8, 1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export_onnx(network, f"{folder}/network.onnx", Ragged.from_sets([torch.randn(4, 3)]))
    """
    padded = PaddedNetwork(network)
    try:
        import onnx  # noqa: F401, PLC0415
        import onnxscript  # noqa: F401, PLC0415
    except ImportError as error:
        raise ImportError("export_onnx needs onnx and onnxscript: pip install 'janossy[onnx]'.") from error
    values = (example if isinstance(example, Ragged) else Ragged.from_padded(*example)).values
    B, m, n = (torch.export.Dim(name, min=0) for name in "Bmn")
    x = values.new_zeros(2, 4, *values.shape[1:])  # sizes of 0 and 1 would be taken for constants
    inputs = {"x": x, "mask": torch.ones(2, 4, dtype=torch.bool, device=x.device)}
    sizes = {"x": {0: B, 1: n}, "mask": {0: B, 1: n}}
    if isinstance(network.pooling.orderings, Sampled):
        inputs["noise"] = torch.zeros(2, 3, 4, dtype=torch.float32, device=x.device)
        sizes["noise"] = {0: B, 1: m, 2: n}
    training = {module: module.training for module in padded.modules()}
    padded.eval()
    try:
        with torch.no_grad():  # the exporter would trace each loop's backward too
            torch.onnx.export(
                padded,
                tuple(inputs.values()),
                path,
                dynamo=True,
                dynamic_shapes=tuple(sizes.values()),
                input_names=list(inputs),
                output_names=["y"],
                opset_version=opset,
                external_data=False,
                verbose=False,
            )
    finally:
        for module, was_training in training.items():
            module.training = was_training


def _check_network(network: JanossyNetwork) -> None:
    """Raise a ValueError unless the network is one that PaddedNetwork computes."""
    if not isinstance(network, JanossyNetwork) or type(network).forward is not JanossyNetwork.forward:
        raise ValueError(
            f"PaddedNetwork expects a JanossyNetwork, with no forward of its own; got {type(network).__name__}. "
            "JanossyNetwork(None, pooling, None) makes one of a pooling layer."
        )
    f, orderings, reduce = network.pooling.f, network.pooling.orderings, network.pooling.reduce
    if hooked(network.pooling):
        raise ValueError("PaddedNetwork runs the cells of f and none of its hooks; got one. Remove it.")
    declared = structure(f)
    if not isinstance(declared, Recurrent) or declared.per_position:
        raise ValueError(
            "PaddedNetwork expects f to be janossy's RNN, GRU or LSTM, with one vector for a row; "
            f"got {type(f).__name__}. Use Ragged sets for it."
        )
    # A row for each permutation, of all elements, by noise alone.
    whole = type(orderings) is Sampled and (orderings.k, orderings.seed, orderings.exact_last) == (None, None, 0)
    if type(orderings) is not Canonical and not whole:
        raise ValueError(
            f"PaddedNetwork expects Canonical(key), or Sampled(num) without k, seed and exact_last; got {orderings}. "
            "Build the network with one of those, which may have the same f, h and rho."
        )
    if reduce not in REDUCTIONS:
        raise ValueError(f"PaddedNetwork expects reduce among {', '.join(map(repr, REDUCTIONS))}; got {reduce!r}.")


def _columns(elements: Tensor, key: Key | None) -> list[Tensor]:
    """The numbers (N,) to sort elements (N, *features) by: the key's columns, then the features; none of them NaN."""
    features = elements.flatten(1) if elements.dim() > 1 else elements[:, None]
    columns = [*features.unbind(1)]
    if key is not None:
        keys = key(elements).detach()
        columns = [*(keys if keys.dim() > 1 else keys[:, None]).unbind(1), *columns]
    comparable = []
    for column in columns:
        if column.is_floating_point():  # ONNX's order of NaN is unspecified; torch's sort puts it last
            comparable += [column.isnan().long(), column.masked_fill(column.isnan(), 0)]
        else:
            comparable.append(column.long())
    return comparable


def _sorted_positions(columns: list[Tensor]) -> Tensor:
    """The positions (…, n) that sort along the last dimension by the first column, its ties by the next, and so on."""
    order = torch.arange(columns[0].shape[-1], device=columns[0].device).expand_as(columns[0])
    for column in reversed(columns):
        order = order.gather(-1, _argsort(column.gather(-1, order)))
    return order


def _argsort(x: Tensor) -> Tensor:
    if torch.onnx.is_in_onnx_export():  # the exporter has TopK, which is stable, for this name only
        return x.argsort(-1)
    return x.argsort(dim=-1, stable=True)


def _last_hidden(structure: Recurrent, x: Tensor, sizes: Tensor) -> Tensor:
    """f of each of the rows x (T, L, d), of which the first sizes (T,) elements are real; zero where none is."""
    last: list[Tensor] = []
    for layer in structure.layers:
        runs = [_run(structure, direction, x, sizes) for direction in layer]
        x = torch.cat([outputs for outputs, _ in runs], dim=2)
        last = [hidden for _, hidden in runs]
    return torch.cat(last, dim=1)


def _run(structure: Recurrent, weights: Direction, x: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """One layer in one direction: its outputs (T, L, H), in the order of x, and its last hidden state (T, H).

    It reads each row from the first of its real elements to the last, or back, and then its padding, when the last
    hidden state has been passed already.
    """
    ordered = _reversed(x, sizes) if weights.reverse else x
    inputs = nn.functional.linear(ordered, weights.weight_ih, weights.bias_ih)

    def step(state: State, inputs: Tensor) -> Stepped:
        hidden = nn.functional.linear(state[0], weights.weight_hh, weights.bias_hh)
        return structure.step(inputs, hidden, state), state[0].clone()

    H = weights.weight_hh.shape[1]
    start = tuple(inputs.new_zeros(x.shape[0], H) for _ in range(structure.num_states))
    # One step more, so that there is always one; hidden[:, t] is the state after t elements.
    hidden = _loop(step, start, nn.functional.pad(inputs, (0, 0, 0, 1)).transpose(0, 1)).transpose(0, 1)
    outputs, last = hidden[:, 1:], _gather(hidden, sizes[:, None])[:, 0]
    return (_reversed(outputs, sizes) if weights.reverse else outputs), last


def _loop(step: Callable[[State, Tensor], Stepped], state: State, inputs: Tensor) -> Tensor:
    """The outputs of every step, stacked. Exported, it is a loop of as many steps as there are then inputs."""
    if torch.compiler.is_exporting():
        return scan(step, state, inputs)[1]
    outputs = []
    for each in inputs:
        state, output = step(state, each)
        outputs.append(output)
    return torch.stack(outputs)


def _reversed(x: Tensor, sizes: Tensor) -> Tensor:
    """The rows x (T, L, d) with the first sizes (T,) elements of each in reverse."""
    forward = torch.arange(x.shape[1], device=x.device)
    backward = sizes[:, None] - 1 - forward
    return _gather(x, torch.where(backward >= 0, backward, forward))


def _gather(x: Tensor, positions: Tensor) -> Tensor:
    """The elements of x (…, L, d) at positions (…, M) of their own row: (…, M, d)."""
    return x.gather(-2, positions[..., None].expand(*positions.shape, x.shape[-1]))


def _flat(x: Tensor) -> Tensor:
    """The first two dimensions as one, copied: an exported view would have strides that are wrong where one is 0."""
    return x.flatten(0, 1).clone(memory_format=torch.contiguous_format)
