"""SlotAttention: slots that compete for the elements of each set, in rounds, and replace them."""

from typing import cast

import torch
from torch import Tensor, nn

from janossy.functions.checks import check_widths
from janossy.functions.shown import arguments_shown
from janossy.functions.weights import draw_anew
from janossy.nn.encoder.cost import outline, seconds_by_weights, seconds_of_attention
from janossy.nn.encoder.heads import Heads, compete
from janossy.nn.encoder.layer import SetLayer, apply, apply_padded, of_one_size, seconds
from janossy.nn.encoder.moments import SlotMoments
from janossy.nn.encoder.set_encoder import attention_blocks
from janossy.nn.encoder.within import attend_within
from janossy.sets import Ragged


class SlotAttention(SetLayer):
    """m slots z_1 … z_m that compete for the elements of their set (Locatello et al., 2020), in rounds.

    In a round, each element x_i divides its weight among the slots: a_ri = softmax_r(q_h(z_r)·k_h(x_i)/√c), per head h.
    A slot adds W·[Σ_i a_ri v_h(x_i) / Σ_i a_ri]_h + b to itself. Then slots attend to each other, and pass a
    feed-forward layer. So a round is like a step of EM for a mixture of m components. Elements and slots are normalised
    before each layer.

    Every set becomes a set of m elements, in the order of the slots. As in later work (Jia et al., 2023), the first
    slots are learned and not drawn. Each round has weights of its own, and slots add what they read instead of passing
    a GRU.

    With ``input_features``, slots also know where they are. In each round the elements divide a second weight,
    b_ri = softmax_r(u(z_r)·w(x_i)/√d). The slot reads log(mean_i b_ri), its share of the elements, and μ and log(σ):
    the mean and standard deviation, with weights b_ri, of the inputs of the ``SetEncoder`` around the layer (without
    one, of x). A slot keeps those of the last round behind its own numbers.

    Args:
        in_features: d, the width of the elements, and of the slots.
        num_slots: m, the number of slots.
        num_rounds: the number of rounds.
        num_heads: H, which divides in_features; c = in_features / H.
        hidden_features: the width within the feed-forward layers; None for 2·in_features.
        input_features: e, the width of the inputs whose share, mean and spread slots read; None for slots that do not.

    Shapes: sets.values (N, in_features) -> Ragged of B sets of m, values (B·m, in_features), or with ``input_features``
        (B·m, in_features + 1 + 2·e).
    Invariance: exact. A set's result does not depend on its batch-mates. The slots of an empty set read zeros, and
        a share of 10⁻⁶.
    Cost: m·n for a set of n, per round. With ``input_features``, memory is m·n·d too.
    Raises: TypeError or ValueError for sizes that are not integers >= 1. ValueError for a num_heads that does not
        divide in_features, or elements or inputs of another width.

    Example:
        >>> SlotAttention(8, num_slots=2)(Ragged.from_sets([torch.randn(3, 8), torch.randn(0, 8)])).sizes
        (2, 2)
    """

    keeps_sizes = False

    def __init__(
        self,
        in_features: int,
        *,
        num_slots: int = 4,
        num_rounds: int = 3,
        num_heads: int = 4,
        hidden_features: int | None = None,
        input_features: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_widths(self, in_features=in_features, num_slots=num_slots, num_rounds=num_rounds)
        hidden = 2 * in_features if hidden_features is None else hidden_features
        check_widths(self, hidden_features=hidden)
        self.rounds = nn.ModuleList(_Round(self, in_features, num_heads, hidden) for _ in range(num_rounds))
        self.norm = nn.LayerNorm(in_features)
        self.moments: SlotMoments | None = None
        if input_features is not None:
            check_widths(self, input_features=input_features)
            self.moments = SlotMoments(in_features, input_features, num_rounds)
        self.reads_inputs = self.moments is not None
        self.in_features = in_features
        self.num_slots = num_slots
        self.num_rounds = num_rounds
        self.num_heads = num_heads
        self.hidden_features = hidden_features
        self.input_features = input_features
        self.slots = nn.Parameter(torch.empty(num_slots, in_features))
        nn.init.normal_(self.slots)
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws the weights and the first slots anew."""
        draw_anew(self)
        nn.init.normal_(self.slots)

    def forward(self, sets: Ragged, *, inputs: Ragged | None = None) -> Ragged:
        self.check(sets)
        elements, B, m = self.norm(sets.values), len(sets), self.num_slots
        inputs = sets if inputs is None else inputs
        keys = None if self.moments is None else self.moments.keys_of(elements, inputs.values)
        slots = of_one_size(self.slots.expand(B, -1, -1).flatten(0, 1), sets, m)
        for number, each in enumerate(self._rounds()):
            queries = each.queries(slots.values).unflatten(0, (B, m))
            found = attend_within(queries, each.heads.keys_and_values(elements), sets, "slots")
            slots = slots.with_values(slots.values + each.heads.out(found).flatten(0, 1))
            slots = apply(each.feed_forward, apply(each.between, slots))
            if self.moments is not None and keys is not None:
                told = self.moments.of_sets(number, slots.values.unflatten(0, (B, m)), keys, inputs)
                slots = slots.with_values(told.flatten(0, 1))
        return slots

    def padded(self, x: Tensor, mask: Tensor, *, inputs: Tensor | None = None) -> tuple[Tensor, Tensor]:
        elements, slots = self.norm(x), self.slots.expand(x.shape[0], -1, -1)
        inputs = x if inputs is None else inputs
        keys = None if self.moments is None else self.moments.keys_of(elements, inputs)
        all_real = mask.new_ones(x.shape[0], self.num_slots)
        for number, each in enumerate(self._rounds()):
            keys_and_values = each.heads.keys_and_values(elements).unbind(2)
            found = compete(each.queries(slots), *keys_and_values, mask=mask[:, None, None])
            slots, _ = apply_padded(each.between, slots + each.heads.out(found), all_real)
            slots, _ = apply_padded(each.feed_forward, slots, all_real)
            if self.moments is not None and keys is not None:
                slots = self.moments.of_padded(number, slots, keys, inputs, mask)
        return slots, all_real

    def seconds(self, sets: Ragged) -> float:
        slots = outline(sets[:0], self.sizes_of(sets.sizes))
        pairs = self.num_slots * len(sets.values)
        total = 0.0
        for each in self._rounds():
            total += seconds_by_weights(each.heads, sets) / 2 + seconds_by_weights(each.heads, slots) / 2
            total += seconds_of_attention(sets, pairs, self.num_heads)
            total += seconds(each.between, slots) + seconds(each.feed_forward, slots)
        if self.moments is not None:
            total += seconds_by_weights(self.moments.keys, sets)
            total += seconds_by_weights(self.moments, slots) + self.num_rounds * seconds_of_attention(sets, pairs, 1)
        return total

    def sizes_of(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        return (self.num_slots,) * len(sizes)

    def _rounds(self) -> "list[_Round]":
        return cast("list[_Round]", list(self.rounds))

    def extra_repr(self) -> str:
        return arguments_shown(self)


class _Round(nn.Module):
    """The weights of a round: slots read elements, attend to each other, and pass a feed-forward layer."""

    def __init__(self, owner: nn.Module, width: int, num_heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = Heads(owner, width, num_heads)
        self.norm = nn.LayerNorm(width)
        self.between, self.feed_forward = attention_blocks(width, num_heads=num_heads, hidden_features=hidden)

    def queries(self, slots: Tensor) -> Tensor:
        """Returns the queries (…, H, c) of slots (…, d)."""
        return self.heads.queries(self.norm(slots))
