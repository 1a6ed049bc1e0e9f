"""A stack equals its networks, value and gradient, whoever else is in it; training, keeping, predicting, bad input."""

import copy
import pickle
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from janossy import (
    GRU,
    LSTM,
    RNN,
    AllPermutations,
    Canonical,
    Combinations,
    ImportanceSampled,
    JanossyNetwork,
    JanossyPooling,
    Ragged,
    Sampled,
    Stack,
    TupleMLP,
    Tuples,
    predict,
)
from janossy.functions import GatedAttention
from janossy.nn import AttentionMean, ColumnEmbedding, PooledNorm, PowerMean, Readout, SelfAttention
from janossy.stack import clip_grad_norm_, scale_steps
from tests.examples import Transformer
from tests.laws import close

R, V, D = 3, 9, 3
TOGETHER, ALONE = "together", "network by network"


PAGE = Path(__file__).parents[1] / "docs" / "stacks.md"


def test_the_page_runs():
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        exec(compile(block, PAGE.name, "exec"), names)
    assert names["norms"].shape == (5,)


def ids(width: int) -> nn.Module:
    return nn.Embedding(V, width)


def mlp(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 5), nn.Tanh(), nn.Linear(5, 2))


def sum_of_squares(x: Tensor) -> Tensor:
    return x.square().sum(1)


CASES = {  # h, f, orderings, rho, the pooling's other arguments, and how the sets are pooled
    "k1 of ids": (ids(4), TupleMLP(1, 4, 5, activation="gelu"), Tuples(1), mlp(5), {"reduce": "sum"}, TOGETHER),
    "k1 of vectors": (None, TupleMLP(1, D, 20, out_features=2), Tuples(1), None, {}, TOGETHER),
    "k2 of ids": (ids(4), TupleMLP(2, 4, 10), Combinations(2), nn.Linear(10, 2), {"reduce": "sum"}, TOGETHER),
    "k2 relu": (nn.Linear(D, 4), TupleMLP(2, 4, 6, out_features=3, activation="relu"), Tuples(2), mlp(3), {}, TOGETHER),
    "k3 sigmoid of ids": (
        ids(4),
        TupleMLP(3, 4, 9, out_features=3, activation="sigmoid"),
        Tuples(3),
        mlp(3),
        {},
        TOGETHER,
    ),
    "k3 of vectors": (mlp(D), TupleMLP(3, 2, 8), Combinations(3), nn.Linear(8, 1), {"append_size": False}, TOGETHER),
    "k2 with the size": (ids(4), TupleMLP(2, 5, 10), Tuples(2), nn.Linear(10, 2), {"append_size": "log"}, TOGETHER),
    "k2, spectral": (None, TupleMLP(2, D, 4), Tuples(2), None, {"evaluate": "spectral"}, ALONE),
    "k2, two layers": (None, TupleMLP(2, D, (4, 3)), Tuples(2), None, {}, ALONE),
    "a function that is no module": (nn.Linear(D, 3), sum_of_squares, Tuples(2), nn.Linear(3, 2), {}, ALONE),
    "lstm of ids": (ids(4), LSTM(4, 10), Sampled(), nn.Linear(10, 2), {}, TOGETHER),
    "gru": (nn.Linear(D, 4), GRU(4, 9), Sampled(3), mlp(9), {"reduce": "max"}, TOGETHER),
    "rnn, first two": (None, RNN(D, 8), Sampled(3, k=2), None, {"reduce": "logmeanexp"}, TOGETHER),
    "gru of few units": (ids(4), GRU(4, 3), Canonical(), nn.Linear(3, 2), {}, TOGETHER),
    "lstm, every order": (None, LSTM(D, 8), AllPermutations(), None, {"evaluate": "shared_prefixes"}, ALONE),
    "gru, both directions": (None, GRU(D, 4, bidirectional=True), Sampled(2), None, {}, ALONE),
    "weighted": (None, GRU(D, 4), ImportanceSampled(2), None, {}, ALONE),
    "transformer": (
        nn.Sequential(nn.Linear(D, 2), nn.LayerNorm(2)),
        Transformer(),
        Sampled(2),
        Readout(4, 3, 2, first=nn.LayerNorm(4)),
        {},
        ALONE,
    ),
    "columns": (
        ColumnEmbedding((), num_numbers=D, coded=[(0, [-0.5, 0.5])], quantiles=[(1, [-1.0, 0.0, 2.0])]),
        TupleMLP(1, 8, (6, 5), activation="relu"),
        Tuples(1),
        Readout(5, 4, 2, first=PooledNorm(5)),
        {"append_size": "log"},
        TOGETHER,
    ),
    "maximum of ids": (ids(4), TupleMLP(1, 4, (6, 5)), Combinations(1), nn.Linear(5, 2), {"reduce": "max"}, TOGETHER),
    "attention": (
        nn.Linear(D, 4),
        GatedAttention(TupleMLP(1, 4, (5, 6)), in_features=6, num_heads=2, hidden_features=3),
        Tuples(1),
        Readout(6, 3, 2, first=nn.Sequential(AttentionMean(6, num_heads=2), PooledNorm(6))),
        {},
        TOGETHER,
    ),
}
SIZES = {
    "ragged": [(3, 0, 5, 1, 2, 3), (2, 2, 2, 2, 2, 2), (0, 0, 1, 5, 0, 1)],
    "one size": [(4,) * 6] * R,
    "shared": (4, 0, 3, 4, 4, 2),
    "empty": [(0,) * 3] * R,
}


def networks(case: str, num: int = R) -> list[JanossyNetwork]:
    h, f, orderings, rho, options, _ = CASES[case]
    found = [JanossyNetwork(*copy.deepcopy((h, JanossyPooling(f, orderings, **options), rho))) for _ in range(num)]
    for seed, network in enumerate(found):
        source = torch.Generator().manual_seed(seed)
        for parameter in network.parameters():
            parameter.data = torch.randn(parameter.shape, generator=source, dtype=torch.float64) / 2
    return [network.double() for network in found]


def some_sets(case: str, sizes, seed: int) -> Ragged:
    source = torch.Generator().manual_seed(seed)
    if isinstance(CASES[case][0], nn.Embedding):
        return Ragged.from_sizes(torch.randint(V, (sum(sizes),), generator=source), sizes)
    return Ragged.from_sizes(torch.randn(sum(sizes), D, generator=source, dtype=torch.float64), sizes)


def batches(case: str, sizes: str):
    if sizes == "shared":
        return some_sets(case, SIZES[sizes], 0)
    return [some_sets(case, each, seed) for seed, each in enumerate(SIZES[sizes])]


def sources(num: int = R) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in range(num)]


def options(network: JanossyNetwork, source: torch.Generator) -> dict:
    return {"generator": source} if network.pooling.orderings.draws else {}


def functional(outputs: Tensor) -> Tensor:
    return (outputs * torch.linspace(-1, 1, outputs.numel(), dtype=outputs.dtype).view_as(outputs)).sum()


def law_stack(case: str, sizes: str) -> None:
    """Checks that a stack's outputs and gradients are those of its networks alone."""
    alone, sets = networks(case), batches(case, sizes)
    stack = Stack(alone)
    outputs = stack(sets, generators=sources())
    if not outputs.requires_grad:  # of empty sets, which no weight is applied to
        return close(outputs, torch.zeros_like(outputs))
    sum(functional(each) for each in outputs).backward()
    each_sets = [sets] * R if sizes == "shared" else sets
    for r, (network, own, source) in enumerate(zip(alone, each_sets, sources(), strict=True)):
        expected = network(own, **options(network, source))
        close(outputs[r].detach(), expected.detach())
        functional(expected).backward()
        for (name, parameter), joined in zip(network.named_parameters(), stack.network.parameters(), strict=True):
            nothing = torch.zeros_like(parameter)
            got = nothing if joined.grad is None else joined.grad[r]
            close(got, nothing if parameter.grad is None else parameter.grad, atol=1e-12, rtol=1e-11, msg=name)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("case", CASES)
def test_a_stack_equals_its_networks(case, sizes):
    law_stack(case, sizes)


def test_a_memory_budget_is_kept_network_by_network():
    """Rows in chunks are computed again in backward, by each network's own weights."""
    case = "transformer"
    alone, sets = networks(case), batches(case, "one size")
    stack, chunked = Stack(alone), Stack(alone)
    for member in chunked.members():
        member.pooling.memory_budget = 1
    for each in (stack, chunked):
        functional(each(sets, generators=sources())).backward()
    for got, want in zip(chunked.parameters(), stack.parameters(), strict=True):
        close(got.grad, want.grad)


def test_the_law_finds_a_stack_that_mixes_its_networks_up(monkeypatch):
    monkeypatch.setattr("janossy.stack.batch.split", lambda elements, batch: [elements[: batch.num_sets]] * R)
    monkeypatch.setattr("janossy.stack.stack.split", lambda elements, batch: [elements[: batch.num_sets]] * R)
    with pytest.raises(AssertionError):
        law_stack("transformer", "one size")


@pytest.mark.parametrize("case", CASES)
def test_explain_says_what_is_computed_together(case):
    text = Stack(networks(case)).explain(batches(case, "one size"))
    assert CASES[case][-1] in next(line for line in text.splitlines() if line.startswith("  pooling:"))
    assert ("rho: network by network: Readout" in text) == (case == "transformer")
    assert "network 0 by itself:" in text


@pytest.mark.parametrize("case", ["k1 of ids", "k2 of ids", "k3 of vectors", "lstm of ids", "gru", "attention"])
def test_a_network_does_not_see_the_others(case):
    alone, sets = networks(case), batches(case, "ragged")
    together = Stack(alone)(sets, generators=sources())
    pair = Stack([alone[2], alone[0]])([sets[2], sets[0]], generators=[sources()[2], sources()[0]])
    close(pair, together[[2, 0]])


@pytest.mark.parametrize("case", ["k1 of ids", "k2 of ids", "k2 relu", "lstm of ids", "gru of few units"])
def test_second_derivatives(case):
    """A penalty takes them, of a squared norm of the gradient."""
    alone, sets = networks(case), batches(case, "one size")
    stack = Stack(alone)

    def penalty(module: nn.Module, outputs: Tensor) -> list[Tensor]:
        parameters = list(module.parameters())
        first = torch.autograd.grad(functional(outputs), parameters, create_graph=True, allow_unused=True)
        total = sum(g.square().sum() for g in first if g is not None)
        return torch.autograd.grad(total, parameters, allow_unused=True)

    found = penalty(stack.network, stack(sets, generators=sources())[0])
    expected = penalty(alone[0], alone[0](sets[0], **options(alone[0], sources()[0])))
    for got, want in zip(found, expected, strict=True):
        if want is not None:
            close(got[0], want, atol=1e-10, rtol=1e-10)
            assert not got[1:].any()


def train(module: nn.Module, loss, num_steps: int = 20, rates: Tensor | None = None, lr: float = 0.01):
    optimizer = torch.optim.Adam(module.parameters(), lr=lr)
    if rates is not None:
        scale_steps(optimizer, rates)
    for step in range(num_steps):
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()
    return optimizer


@pytest.mark.parametrize("case", ["k2 of ids", "lstm of ids", "transformer", "columns", "attention"])
def test_training_together_equals_training_alone(case):
    alone, target = networks(case, 2), 0.3
    stack, own = Stack(alone), sources(2)
    steps = [[some_sets(case, (4, 2, 3), 100 * step + r) for r in range(2)] for step in range(20)]

    rates = torch.tensor([0.01, 0.03], dtype=torch.float64)
    train(stack, lambda step: (stack(steps[step], generators=own) - target).square().mean((1, 2)).sum(), 20, rates, 1.0)
    for r, (network, source, rate) in enumerate(zip(alone, sources(2), rates.tolist(), strict=True)):

        def loss(step, network=network, source=source, r=r):
            return (network(steps[step][r], **options(network, source)) - target).square().mean()

        train(network, loss, lr=rate)
        for got, want in zip(stack.unstack()[r].parameters(), network.parameters(), strict=True):
            close(got, want, atol=1e-9, rtol=1e-9)


def test_those_that_are_kept_train_on_as_before():
    case = "k2 of ids"
    stack, other = Stack(networks(case)), Stack([networks(case)[i] for i in (0, 2)])
    sets = batches(case, "ragged")
    optimizer = train(stack, lambda step: stack(sets).square().mean((1, 2)).sum(), 3)
    assert stack.keep([0, -1], optimizer) is stack and len(stack) == 2
    for _ in range(2):
        optimizer.zero_grad()
        stack([sets[0], sets[2]]).square().mean((1, 2)).sum().backward()
        optimizer.step()
    train(other, lambda step: other([sets[0], sets[2]]).square().mean((1, 2)).sum(), 5)
    for got, want in zip(stack.parameters(), other.parameters(), strict=True):
        close(got, want)


def test_each_network_is_clipped_by_its_own_norm():
    alone, sets = networks("k2 of ids"), batches("k2 of ids", "one size")
    stack = Stack(alone)
    scales = torch.tensor([1e-3, 1.0, 50.0], dtype=torch.float64)
    (stack(sets).flatten(1).sum(1) * scales).sum().backward()
    norms = clip_grad_norm_(stack, 0.5)
    for r, network in enumerate(alone):
        (network(sets[r]).sum() * scales[r]).backward()
        close(norms[r], nn.utils.clip_grad_norm_(network.parameters(), 0.5))
        for got, want in zip(stack.network.parameters(), network.parameters(), strict=True):
            close(got.grad[r], want.grad)


def test_networks_with_scalar_and_empty_weights_are_clipped():
    h = ColumnEmbedding([V], num_numbers=0, embedding_features=3, scaled=True)
    pooling = JanossyPooling(TupleMLP(1, 3, 4), Tuples(1), reduce=PowerMean(learn=True))
    alone = [copy.deepcopy(JanossyNetwork(h, pooling, nn.Linear(4, 1))).double() for _ in range(2)]
    alone[1].rho.weight.data *= 30
    stack, sets = Stack(alone), Ragged.from_sizes(torch.arange(5.0, dtype=torch.float64)[:, None], (3, 2))
    stack(sets).sum().backward()
    assert {p.grad.dim() for p in stack.parameters()} >= {1, 2} and 0 in {p.numel() for p in stack.parameters()}
    norms = clip_grad_norm_(stack, 0.5)
    for r, network in enumerate(alone):
        network(sets).sum().backward()
        close(norms[r], nn.utils.clip_grad_norm_(network.parameters(), 0.5))
        for got, want in zip(stack.network.parameters(), network.parameters(), strict=True):
            close(got.grad[r], want.grad)


@pytest.mark.parametrize(
    "again", [lambda stack: Stack(stack.unstack()), copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_unstacking_gives_the_networks_back(again):
    alone = [network.eval() for network in networks("transformer")]
    stack = Stack(alone)
    stack(batches("transformer", "one size")).sum().backward()
    for found in (stack.unstack(), again(stack).unstack()):
        for network, original in zip(found, alone, strict=True):
            assert not network.training and repr(network) == repr(original)
            assert list(network.state_dict()) == list(original.state_dict())
            for name, weight in network.state_dict().items():
                assert torch.equal(weight, original.state_dict()[name])
            assert all(parameter.is_leaf and parameter.requires_grad for parameter in network.parameters())


@pytest.mark.parametrize("case", ["columns", "attention"])
def test_norms_keep_the_statistics_of_each_network(case):
    alone, sets = networks(case), batches(case, "one size")
    stack = Stack(alone)
    for _ in range(2):
        stack(sets)
        for network, own in zip(alone, sets, strict=True):
            network(own)
    for found, network in zip(stack.unstack(), alone, strict=True):
        for got, want in zip(found.buffers(), network.buffers(), strict=True):
            close(got, want)
    stack.eval()
    close(stack(sets), torch.stack([network.eval()(own) for network, own in zip(alone, sets, strict=True)]))
    one = [own[:1] for own in sets]
    close(stack.train()(one), torch.stack([n.train()(own) for n, own in zip(alone, one, strict=True)]))


@pytest.mark.parametrize("counts", [(3, 2, 4), (3, 2, 2), (1, 5, 0)])
def test_norms_of_unlike_numbers_of_elements(counts):
    """The nine rows of (3, 2, 4) would also be three networks of three."""
    h = nn.Sequential(nn.Linear(D, 4), PooledNorm(4))
    pooling = JanossyPooling(TupleMLP(2, 4, 5), Tuples(2))
    alone = [copy.deepcopy(JanossyNetwork(h, pooling, None)).double() for _ in counts]
    for seed, network in enumerate(alone):
        for parameter in network.parameters():
            parameter.data.normal_(generator=torch.Generator().manual_seed(seed))
    sets = [
        Ragged.from_sizes(torch.randn(n, D, generator=source, dtype=torch.float64), (n,))
        for n, source in zip(counts, sources(), strict=True)
    ]
    stack = Stack(alone)
    for mode in (True, True, False):
        outputs = stack.train(mode)(sets)
        expected = torch.stack([network.train(mode)(own) for network, own in zip(alone, sets, strict=True)])
        close(outputs, expected)
        found = torch.autograd.grad(functional(outputs), list(stack.parameters()))
        wanted = torch.autograd.grad(functional(expected), [p for network in alone for p in network.parameters()])
        for i, got in enumerate(found):
            close(got, torch.stack(wanted[i :: len(found)]))
    for found, network in zip(stack.unstack(), alone, strict=True):
        for got, want in zip(found.buffers(), network.buffers(), strict=True):
            close(got, want)


def columns_with_context() -> JanossyNetwork:
    pooling = JanossyPooling(TupleMLP(1, 6, (5, 4)), Tuples(1))
    rho = Readout(4, 3, 1, first=PooledNorm(4), embed=ColumnEmbedding([4], num_numbers=1, embedding_features=2))
    h = ColumnEmbedding([3, V], num_numbers=1, embedding_features=2, by_category=True)
    return JanossyNetwork(h, pooling, rho).double()


def test_columns_of_codes_and_a_context_are_read_together():
    alone = [columns_with_context() for _ in range(R)]
    source, stack = torch.Generator().manual_seed(0), Stack(alone)
    sets, contexts = [], []
    for sizes in ((3, 1, 2), (2, 2, 5), (1, 1, 1)):
        codes = [torch.randint(num, (sum(sizes),), generator=source) for num in (3, V)]
        values = torch.stack([*codes, torch.randn(sum(sizes), generator=source)], 1).double()
        sets.append(Ragged.from_sizes(values, sizes))
        code = torch.randint(4, (3,), generator=source)
        contexts.append(torch.stack([code, torch.randn(3, generator=source)], 1).double())
    assert "network by network:" not in stack.explain(sets).split("network 0 by itself")[0]
    expected = [n(own, context=c) for n, own, c in zip(alone, sets, contexts, strict=True)]
    close(stack(sets, context=torch.stack(contexts)), torch.stack(expected))
    for code in (-1.0, 3.0):  # which would be one of another network's table
        wrong = sets[1].with_values(sets[1].values.clone())
        wrong.values[0, 0] = code
        with pytest.raises(IndexError, match=r"ids from 0 to 2; got"):
            stack([sets[0], wrong, sets[2]], context=torch.stack(contexts))


def test_weights_used_twice_frozen_ones_and_buffers_stay_what_they_are():
    def build() -> JanossyNetwork:
        layer = nn.Linear(4, 4)
        rho = nn.Sequential(layer, nn.BatchNorm1d(4), layer)
        network = JanossyNetwork(nn.Linear(D, 2), JanossyPooling(TupleMLP(2, 2, 4), Tuples(2)), rho).double()
        network.h.weight.requires_grad_(False)
        return network

    alone, sets = [build() for _ in range(2)], [some_sets("gru", (4,) * 5, seed) for seed in range(2)]
    stack = Stack(alone)
    assert stack.network.rho[0].weight is stack.network.rho[2].weight and not stack.network.h.weight.requires_grad
    outputs = stack(sets)
    for r, network in enumerate(stack.unstack()):
        close(outputs[r], alone[r](sets[r]))
        close(network.rho[1].running_mean, alone[r].rho[1].running_mean)
        assert network.rho[1].num_batches_tracked == 1 and network.rho[0].weight is network.rho[2].weight


def test_modes_dtypes_and_states_are_those_of_modules():
    stack = Stack(networks("transformer")).eval()
    assert not any(module.training for member in stack.members() for module in member.modules())
    sets, state = batches("transformer", "one size"), stack.state_dict()
    other = Stack([*networks("transformer", 5)[2:]])
    other.load_state_dict(state)
    close(other(sets, generators=sources()), stack(sets, generators=sources()))
    assert stack.float()([each.to(torch.float32) for each in sets]).dtype == torch.float32


class Doubled(JanossyNetwork):
    def forward(self, *args, **options):
        return 2 * super().forward(*args, **options)


class DoubledPooling(JanossyPooling):
    def forward(self, *args, **options):
        return 2 * super().forward(*args, **options)


def ones(sets: Ragged, **_: object) -> Tensor:
    return torch.ones(len(sets), 2, dtype=torch.float64)


OWN_CODE = {
    "forward": lambda network: setattr(network, "__class__", Doubled),
    "forward of the pooling": lambda network: setattr(network.pooling, "__class__", DoubledPooling),
    "forward of an instance": lambda network: setattr(network, "forward", ones),
    **{
        f"hook on {name or 'the network'}": lambda network, name=name: network.get_submodule(
            name
        ).register_forward_hook(lambda module, args, out: 2 * out)
        for name in ("", "h", "pooling", "pooling.f", "rho")
    },
    **{f"forward within {name}": lambda network, name=name: doubled_within(network, name) for name in ("h", "rho")},
}


def doubled_within(network: JanossyNetwork, name: str) -> None:
    """Gives the last module within a part of the network a forward of its own."""
    *_, module = network.get_submodule(name).modules()
    module.forward = lambda x: 2 * type(module).forward(module, x)


@pytest.mark.parametrize("later", [False, True], ids=["before", "later"])
@pytest.mark.parametrize("what", OWN_CODE)
@pytest.mark.parametrize("case", ["k2 of ids", "gru"])
def test_code_of_the_user_runs(case, what, later):
    alone, sets = networks(case), batches(case, "ragged")
    plain = Stack(alone)(sets, generators=sources())
    stack = Stack(alone) if later else None
    for network in (*alone, *(stack.members() if later else ())):
        OWN_CODE[what](network)
    stack = stack or Stack(alone)
    each = zip(alone, sets, sources(), strict=True)
    found = stack(sets, generators=sources())
    close(found, torch.stack([network(own, generator=source) for network, own, source in each]))
    assert not torch.allclose(found, plain)
    assert "network by network" in stack.explain(sets)


def test_hooks_that_come_later_are_found_without_a_walk_by_names(monkeypatch):
    """torch's ``modules()`` makes names on its way, which took a part of each small call."""
    stack, sets = Stack(networks("k3 of vectors")), batches("k3 of vectors", "ragged")
    plain = stack(sets)
    with monkeypatch.context() as patched:
        patched.setattr(nn.Module, "modules", lambda self: pytest.fail("this made names"))
        close(stack(sets), plain)
    stack.members()[1].h[2].register_forward_hook(lambda module, args, out: 2 * out)
    found = stack(sets)
    assert not torch.allclose(found[1], plain[1])
    close(found[::2], plain[::2])


@pytest.mark.parametrize("case", ["k3 of vectors", "gru", "columns", "attention", "transformer"])
def test_hooks_within_the_holder_of_the_weights_do_not_run(case):
    stack, sets = Stack(networks(case)).eval(), batches(case, "ragged")
    plain = stack(sets, generators=sources())
    for module in stack.network.modules():
        module.register_forward_hook(lambda *_: pytest.fail("this ran"))
        module.register_forward_pre_hook(lambda *_: pytest.fail("this ran"))
    close(stack(sets, generators=sources()), plain)


def test_explain_is_of_the_present_mode_and_weights():
    pooling = JanossyPooling(TupleMLP(2, D, 4), Tuples(2), orderings_train=Sampled(1, k=2))
    stack = Stack([JanossyNetwork(None, pooling, encoder=SelfAttention(D, num_heads=1)) for _ in range(R)])
    sets = Ragged.from_sizes(torch.randn(30, D), [10, 20])
    assert "pooling: network by network" in stack.explain(sets)
    assert "pooling: the means over all k-tuples together" in stack.eval().explain(sets)
    stack(sets)
    assert "3 networks" in stack.double().explain(sets.with_values(sets.values.double()))


def test_joined_sets_and_a_context():
    class WithContext(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4 + 2, 1)

        def forward(self, pooled: Tensor, context: Tensor) -> Tensor:
            return self.layer(torch.cat((pooled, context), 1))

    alone = [
        JanossyNetwork(None, JanossyPooling(TupleMLP(2, D, 4), Tuples(2)), WithContext()).double() for _ in range(R)
    ]
    stack, sets = Stack(alone), batches("gru", "ragged")
    context = torch.randn(R, 6, 2, dtype=torch.float64)
    expected = torch.stack([n(own, context=c) for n, own, c in zip(alone, sets, context, strict=True)])
    close(stack(sets, context=context), expected)
    close(stack(Ragged.cat(sets), joined=True, context=context), expected)


def test_generators_of_networks_whose_orders_are_fixed_in_evaluation():
    def pooling():
        return JanossyPooling(GRU(D, 4), Sampled(2), fixed_in_eval=True)

    alone = [JanossyNetwork(None, pooling()).double().eval() for _ in range(R)]
    stack, sets = Stack(alone).eval(), batches("gru", "ragged")
    for given in (lambda: sources(), lambda: [None] * R, lambda: [None, *sources()[1:]]):
        expected = torch.stack([n(own, generator=g) for n, own, g in zip(alone, sets, given(), strict=True)])
        close(stack(sets, generators=given()), expected)


@pytest.mark.parametrize("case", ["k2 of ids", "lstm of ids"])
def test_predictions_of_a_stack_are_the_members(case):
    alone, sets = networks(case), batches(case, "shared")
    prediction = predict(Stack(alone), sets, 8, generator=sources(), link=torch.sigmoid)
    each = [predict(n, sets, 8, generator=g, link=torch.sigmoid) for n, g in zip(alone, sources(), strict=True)]
    means = torch.stack([one.mean for one in each])
    close(prediction.members, means)
    close(prediction.mean, means.mean(0))
    close(prediction.spread, means.std(0))
    close(prediction.standard_error, torch.stack([one.standard_error for one in each]).square().sum(0).sqrt() / R)
    assert (prediction.num_permutations == sum(one.num_permutations for one in each)).all()
    seeded = predict(Stack(alone), sets, 8, seed=1)
    errors = torch.stack([predict(n, sets, 8, seed=1).standard_error for n in alone])
    close(seeded.standard_error, errors.mean(0))
    assert predict(Stack(alone[:1]), sets, 8).spread.isnan().all()


def changed(**changes) -> list[JanossyNetwork]:
    case = "k2 of ids"
    found = networks(case, 2)
    for name, change in changes.items():
        change(found[1]) if callable(change) else setattr(found[1], name, change)
    return found


class Activated(nn.Module):
    def __init__(self, act: nn.Module) -> None:
        super().__init__()
        self.inner = act


def activated(act: nn.Module) -> JanossyNetwork:
    return JanossyNetwork(None, JanossyPooling(TupleMLP(1, 2, 3), Tuples(1)), Activated(act))


GOOD = "k2 of ids"
BAD = {
    "none": (lambda: Stack([]), ValueError, "at least one network; got none"),
    "one": (lambda: Stack(networks(GOOD)[0]), TypeError, "a sequence of networks; got one JanossyNetwork"),
    "another module": (lambda: Stack([nn.Linear(1, 1)]), TypeError, "expects a JanossyNetwork; got Linear"),
    "width": (
        lambda: Stack([networks(GOOD)[0], networks("k2 with the size")[0]]),
        ValueError,
        r"got pooling.f.hidden.0.weight as \(10, 10\).* in network 1, and as \(10, 8\)",
    ),
    "names": (
        lambda: Stack([networks(GOOD)[0], networks("gru of few units")[0]]),
        ValueError,
        "pooling.f.hidden.0.weight as none in network 1, and as",
    ),
    "dtype": (
        lambda: Stack(changed(f=lambda n: n.float())),
        ValueError,
        "float32, on cpu.* in network 1, and as .*float64",
    ),
    "frozen": (lambda: Stack(changed(f=lambda n: n.requires_grad_(False))), ValueError, "not trained in network 1"),
    "arguments": (
        lambda: Stack(changed(f=lambda n: setattr(n.pooling, "reduce", "mean"))),
        ValueError,
        "in network 1, pooling.reduce='mean', where the first has 'sum'",
    ),
    "arguments that no repr shows": (
        lambda: Stack(changed(f=lambda n: setattr(n.pooling, "memory_budget", 1))),
        ValueError,
        "in network 1, pooling.memory_budget=1, where the first has",
    ),
    "parts": (
        lambda: Stack([activated(nn.Tanh()), activated(nn.ReLU())]),
        ValueError,
        "in network 1, rho.inner=ReLU, where the first has Tanh",
    ),
    "batches": (lambda: Stack(networks(GOOD))([some_sets(GOOD, (3,), 0)] * 2), ValueError, "each of its 3 networks"),
    "numbers of sets": (
        lambda: Stack(networks(GOOD))([some_sets(GOOD, (3,) * n, 0) for n in (1, 2, 2)]),
        ValueError,
        "as many sets for each network; got 1, 2, 2",
    ),
    "no sets": (lambda: Stack(networks(GOOD))(torch.zeros(3)), TypeError, "expects a Ragged batch of sets"),
    "joined": (lambda: Stack(networks(GOOD))(some_sets(GOOD, (3,), 0), joined=True), ValueError, "got 1 in all"),
    "joined list": (lambda: Stack(networks(GOOD))([], joined=True), TypeError, "joined sets as one Ragged; got list"),
    "generators": (
        lambda: Stack(networks(GOOD))(some_sets(GOOD, (3,), 0), generators=sources(2)),
        ValueError,
        "3 generators, one per network; got 2",
    ),
    "ids": (
        lambda: Stack(networks(GOOD))(Ragged.from_sizes(torch.tensor([V] * 90), (90,))),
        ValueError,
        f"ids from 0 to {V - 1}; got {V}",
    ),
    "elements": (
        lambda: Stack(networks("gru"))(some_sets("gru", (3,), 0).to(torch.float32)),
        ValueError,
        "expects elements in torch.float64",
    ),
    "context": (
        lambda: Stack(networks(GOOD))(some_sets(GOOD, (3,), 0), context=torch.zeros(1, 2)),
        ValueError,
        r"context \(3, 1, \*any\).* got \(1, 2\)",
    ),
    "keep": (lambda: Stack(networks(GOOD)).keep([3]), IndexError, "networks below 3; got"),
    "keep none": (lambda: Stack(networks(GOOD)).keep([]), ValueError, "at least one network, and none twice"),
    "keep what": (lambda: Stack(networks(GOOD)).keep(["a"]), TypeError, "numbers of networks; got 'a'"),
    "outputs": (
        lambda: predict(Stack(networks(GOOD)), some_sets(GOOD, (3,), 0), keep_outputs=True),
        ValueError,
        "no keep_outputs",
    ),
    "sources": (
        lambda: predict(Stack(networks(GOOD)), some_sets(GOOD, (3,), 0), generator=sources(2)),
        ValueError,
        "one generator, or 3, one per network; got 2",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_gets_one_clear_error(what):
    call, error, message = BAD[what]
    with pytest.raises(error, match=message):
        call()
