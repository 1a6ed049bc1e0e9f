"""Attention between the elements of sets, forward and backward in float32, against what others have on a CPU.

Width 64, 4 heads. A block is attention and a feed-forward layer of width 128, with a layer norm before each. torch's
``TransformerEncoderLayer(norm_first=True)`` on padded sets with a mask has the same weights and numbers. PyG's
``SetTransformerAggregation`` (one encoder block, one seed) is the same function as the line in one-framework.md. Nested
tensors run attention alone, with the jagged layout. Power-law sizes are from 8 to 500.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from benchmarks.harness import Row, backward
from janossy import JanossyNetwork, JanossyPooling, Ragged, Tuples
from janossy.nn import InducedAttention, Residual, SeedAttention, SelfAttention, SetEncoder, attention_blocks

D, HEADS = 64, 4


def rows() -> Iterator[Row]:
    """Yields rows of a block, a Set Transformer and attention alone, on equal and on power-law sizes."""
    for name, sets in (("256 sets of 50", equal(256, 50)), ("16 sets of 500", equal(16, 500))):
        yield block_row(name, sets)
    yield block_row("64 sets of power-law sizes", power_law(64))
    yield aggregation_row("64 sets of power-law sizes", power_law(64))
    yield nested_row("64 sets of power-law sizes up to 100", power_law(64, 100))
    yield induced_row(1_000, 10_000)


def equal(num_sets: int, n: int) -> Ragged:
    """Returns sets of one size."""
    return Ragged.from_sizes(torch.randn(num_sets * n, D, requires_grad=True), [n] * num_sets)


def power_law(num_sets: int, largest: int = 500) -> Ragged:
    """Returns sets whose sizes have a tail n^-2.2."""
    uniform = torch.rand(num_sets, generator=torch.Generator().manual_seed(0))
    sizes = (8 * uniform ** (-1 / 1.2)).clamp(max=largest).long().tolist()
    return Ragged.from_sizes(torch.randn(sum(sizes), D, requires_grad=True), sizes)


def block_row(name: str, sets: Ragged) -> Row:
    """Returns the row of a block against ``TransformerEncoderLayer`` on padded sets with a mask."""
    encoder = SetEncoder(attention_blocks(D, num_heads=HEADS))
    theirs = nn.TransformerEncoderLayer(D, HEADS, 2 * D, dropout=0.0, batch_first=True, norm_first=True)
    attention, ff = encoder.layers
    heads = attention.layer.heads
    theirs.norm1, theirs.norm2, theirs.linear1, theirs.linear2 = attention.norm, ff.norm, ff.layer[0], ff.layer[2]
    with torch.no_grad():
        theirs.self_attn.in_proj_weight.copy_(heads.project.weight)
        theirs.self_attn.in_proj_bias.copy_(heads.project.bias)
        theirs.self_attn.out_proj.load_state_dict(heads.out.state_dict())
    even = len(set(sets.sizes)) == 1

    def padded() -> Tensor:
        x, mask = sets.to_padded()
        return backward(theirs(x, src_key_padding_mask=None if even else ~mask)[mask])

    return Row(
        f"a block on {name}, against padded TransformerEncoderLayer", lambda: backward(encoder(sets).values), padded
    )


def aggregation_row(name: str, sets: Ragged) -> Row:
    """Returns the row of a Set Transformer with one block and one seed against PyG's."""
    from torch_geometric.nn.aggr import SetTransformerAggregation  # noqa: PLC0415

    theirs = SetTransformerAggregation(D, heads=HEADS, num_decoder_blocks=0)

    def ff(block: nn.Module) -> Residual:
        return Residual(nn.Sequential(block.lin, nn.ReLU()))

    first, seeds = SelfAttention(D, num_heads=HEADS), SeedAttention(D, num_heads=HEADS)
    for layer, block in ((first, theirs.encoders[0].mab), (seeds, theirs.pma.mab)):
        with torch.no_grad():
            layer.heads.project.weight.copy_(block.attn.in_proj_weight)
            layer.heads.project.bias.copy_(block.attn.in_proj_bias)
        layer.heads.out.load_state_dict(block.attn.out_proj.state_dict())
    seeds.seeds.data = theirs.pma.seed.data[0]
    encoder = SetEncoder(
        [Residual(first), ff(theirs.encoders[0].mab), theirs.pma.lin, nn.ReLU(), seeds, ff(theirs.pma.mab)]
    )
    network = JanossyNetwork(pooling=JanossyPooling(nn.Flatten(), Tuples(1)), encoder=encoder)
    index = sets.to_index()[1]
    return Row(
        f"a Set Transformer on {name}, against SetTransformerAggregation",
        lambda: backward(network(sets)),
        lambda: backward(theirs(sets.values, index, dim_size=len(sets))),
    )


def nested_row(name: str, sets: Ragged) -> Row:
    """Returns the row of attention alone against nested tensors with the same projections."""
    layer = SelfAttention(D, num_heads=HEADS)

    def nested() -> Tensor:
        projected = layer.heads.project(sets.values).unflatten(-1, (3, HEADS, -1)).unbind(1)
        q, k, v = (
            torch.nested.nested_tensor_from_jagged(x.contiguous(), sets.offsets).transpose(1, 2) for x in projected
        )
        found = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).values()
        return backward(layer.heads.out(found.flatten(1)))

    return Row(f"attention on {name}, against nested tensors", lambda: backward(layer(sets).values), nested)


def induced_row(small: int, large: int) -> Row:
    """Returns the row of induced attention on one set at two sizes. The ratio of times is that of sizes if linear."""
    layer = InducedAttention(D, num_heads=HEADS)
    few, many = equal(1, small), equal(1, large)
    return Row(
        f"induced points, n={large:,} over n={small:,}",
        lambda: backward(layer(few).values),
        lambda: backward(layer(many).values),
        agree=False,
    )
