"""On a GPU nothing waits in the steady state: forward, backward, training steps, predict, NeighborLoader's batches."""

import copy

import pytest
import torch
from torch import nn

from janossy import (
    GRU,
    LSTM,
    AllPermutations,
    BalancedTree,
    Canonical,
    Combinations,
    JanossyEquivariant,
    JanossyNetwork,
    JanossyPooling,
    MinGRU,
    PermutationLoss,
    Ragged,
    Sampled,
    Stack,
    TupleMLP,
    TupleProduct,
    Tuples,
    predict,
)
from janossy.graph import GraphSAGE, TwoHops
from janossy.losses.order_loss import OrderLoss
from janossy.orderings import Learned
from janossy.sets.transfer import upload
from janossy.stack import clip_grad_norm_, scale_steps
from tests.examples import D, Transformer, distinct_sets
from tests.standin import OnCuda, TwoDevices, Waited, cuda, numbers, on_cuda

SIZES = (3, 0, 4, 1, 2)

LAYERS = {
    "GRU, sampled": (lambda: GRU(D, 3), Sampled(4, seed=7)),
    "GRU, gathered": (lambda: GRU(D, 3), Sampled(4, seed=7), "gather"),
    "LSTM, unrolled": (lambda: LSTM(D, 3, unrolled=True), Sampled(4, seed=7), "packed"),
    "LSTM, canonical": (lambda: LSTM(D, 3), Canonical()),
    "GRU, by a key": (lambda: GRU(D, 3), Canonical(0)),
    "LSTM, all orders by prefixes": (lambda: LSTM(D, 3), AllPermutations(), "shared_prefixes"),
    "GRU, combinations by prefixes": (lambda: GRU(D, 3), Combinations(2), "shared_prefixes"),
    "GRU, exact ends": (lambda: GRU(D, 3), Sampled(3, exact_last=2, seed=7), "sampled_prefixes"),
    "MinGRU": (lambda: MinGRU(D, 3), Sampled(4, seed=7)),
    "a tree": (lambda: BalancedTree(D, 3), Sampled(4, seed=7)),
    "a Transformer": (Transformer, Sampled(4, seed=7)),
    "k = 2, gathered": (lambda: TupleMLP(2, D, (5, 4)), Tuples(2), "gather"),
    "k = 2, projected": (lambda: TupleMLP(2, D, (5, 4)), Tuples(2), "projected"),
    "k = 3, in torch": (lambda: TupleMLP(3, D, 5), Tuples(3), "fused"),
    "combinations, in torch": (lambda: TupleMLP(2, D, 5), Combinations(2), "fused"),
    "a product": (lambda: TupleProduct(2, D, 4), Tuples(2), "permanent"),
}


def layer_of(name, **options):
    torch.manual_seed(1)
    build, orderings, *evaluate = LAYERS[name]
    return JanossyPooling(build(), orderings, evaluate=evaluate[0] if evaluate else "auto", **options)


def close(there, here):
    torch.testing.assert_close(numbers(there), here, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("budget", [2**30, 12_000], ids=["at once", "in chunks"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, budget):
    here, sets = layer_of(name, memory_budget=budget), distinct_sets(SIZES)
    there = on_cuda(copy.deepcopy(here))
    x = sets.values.requires_grad_()
    here(sets).square().sum().backward()
    on_gpu = on_cuda(Ragged(x.detach(), sets.offsets, sizes=sets.sizes))
    on_gpu.values.requires_grad_()
    with cuda():
        pooled = there(on_gpu)
        pooled.square().sum().backward()
    assert isinstance(pooled, OnCuda)
    close(on_gpu.values.grad, x.grad)
    for mine, theirs in zip(there.parameters(), here.parameters(), strict=True):
        close(mine.grad, theirs.grad)


def neighbor_loader():
    """Returns a NeighborLoader of torch_geometric: two batches of three vertices and the neighbours of theirs."""
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data  # noqa: PLC0415
    from torch_geometric.loader import NeighborLoader  # noqa: PLC0415

    from tests.graph.by_hand import ByHand  # noqa: PLC0415

    torch.manual_seed(0)
    edges, num_neighbors = torch.randint(12, (2, 40)), [3, 2]
    data = Data(x=torch.randn(12, 4), y=torch.randint(3, (12,)), edge_index=edges)
    sampler = ByHand(edges, num_neighbors)
    return NeighborLoader(data, num_neighbors, torch.arange(6), neighbor_sampler=sampler, batch_size=3, shuffle=True)


def sent(x):
    """Sends a batch's features and labels as training does."""
    return x.pin_memory().to("cuda", non_blocking=True)


@pytest.mark.parametrize("aggregation", ["mean", "gcn", "max", "lstm", "gru", "k2"])
def test_batches_of_neighbours(aggregation):
    """The host knows what was sampled, and sends it."""
    model = GraphSAGE(4, 3, aggregation=aggregation, hidden_features=6)
    there = on_cuda(copy.deepcopy(model))
    for batch in neighbor_loader():
        hops = TwoHops.of_batch(batch)
        model.of_hops(batch.x, hops).square().sum().backward()
        with cuda():
            there.of_hops(sent(batch.x), hops.to("cuda")).square().sum().backward()
    for mine, theirs in zip(there.parameters(), model.parameters(), strict=True):
        close(mine.grad, theirs.grad)


def test_an_output_for_each_element():
    f, sets = GRU(D, 3, bidirectional=True, per_position=True), distinct_sets(SIZES)
    layer = JanossyEquivariant(f, Sampled(3, seed=1))
    expected = layer(sets).values
    with cuda():
        close(JanossyEquivariant(on_cuda(f), Sampled(3, seed=1))(on_cuda(sets)).values, expected)


DRAWN = {
    "one permutation": Sampled(1),
    "groups of three": Sampled(3),
    "the first two": Sampled(1, k=2),
    "exact ends": Sampled(1, exact_last=2),
    "all orders": AllPermutations(),
}


def network_of(orderings):
    torch.manual_seed(1)
    return JanossyNetwork(nn.Linear(D, 4), JanossyPooling(GRU(4, 3), orderings), nn.Linear(3, 2)).eval()


@pytest.mark.parametrize("orderings", DRAWN.values(), ids=DRAWN)
def test_predictions(orderings):
    network, sets = network_of(orderings), distinct_sets(SIZES)
    options = {"seed": 3, "keep_outputs": True} if orderings.draws else {}
    expected = predict(network, sets, **options)
    with cuda():
        found = predict(on_cuda(network), on_cuda(sets), **options)
    for name in ("mean", "standard_error", "num_permutations", "num_blocks", "outputs")[: 5 if options else 4]:
        torch.testing.assert_close(numbers(getattr(found, name)), getattr(expected, name), equal_nan=True)


@pytest.mark.parametrize("orderings", [Sampled(1), Sampled(5), Sampled(1, k=2), Canonical()], ids=repr)
def test_a_training_step(orderings):
    """With the optimiser and the clipping of the estimators."""
    network, sets = on_cuda(network_of(orderings).train()), on_cuda(distinct_sets(SIZES))
    optimizer = torch.optim.AdamW(network.parameters(), fused=True)
    targets, before = on_cuda(torch.randn(len(sets), 2)), numbers(network.rho.weight).clone()
    with cuda():
        for _ in range(2):
            optimizer.zero_grad()
            nn.functional.mse_loss(network(sets), targets).backward()
            norm = nn.utils.clip_grad_norm_(network.parameters(), 1e-3)
            optimizer.step()
    assert numbers(norm) > 1e-3
    assert torch.cat([numbers(p.grad).flatten() for p in network.parameters()]).norm() == pytest.approx(1e-3, rel=1e-2)
    assert not numbers(network.rho.weight).equal(before)


STACKED = {
    "recurrences": lambda: network_of(Canonical()),
    "rows drawn": lambda: network_of(Sampled(2)),
    "tuples": lambda: JanossyNetwork(
        nn.Linear(D, 4), JanossyPooling(TupleMLP(2, 4, 5, out_features=3), Tuples(2), evaluate="fused"), nn.Linear(3, 2)
    ),
}


@pytest.mark.parametrize("name", STACKED)
def test_a_training_step_of_a_stack(name):
    """Each network clipped by its own norm, at a learning rate of its own."""
    stack = on_cuda(Stack([STACKED[name]().train() for _ in range(3)]))
    batches = [distinct_sets((n, *SIZES)) for n in (1, 5, 2)]
    sets, optimizer = [on_cuda(each) for each in batches], torch.optim.Adam(stack.parameters(), 1.0)
    scale_steps(optimizer, on_cuda(torch.tensor([0.1, 0.01, 0.0])))
    before = numbers(stack.network.rho.weight).clone()
    with cuda():
        for _ in range(2):
            optimizer.zero_grad()
            stack(sets).square().sum().backward()
            norms = clip_grad_norm_(stack, 1e-3)
            optimizer.step()
    assert (numbers(norms) > 1e-3).all()
    assert (numbers(stack.network.rho.weight) != before).flatten(1).any(1).tolist() == [True, True, False]


OBJECTIVES = {
    "average loss": lambda: PermutationLoss(num_permutations=3),
    "exact, squared": lambda: PermutationLoss(objective="exact_squared"),
    "average output": lambda: PermutationLoss(objective="average_output", link=torch.sigmoid),
    "a penalty": lambda: PermutationLoss(penalty=0.1),
    "orders by score": lambda: OrderLoss(),
    "orders straight through": lambda: OrderLoss(estimator="straight_through"),
    "orders by search": lambda: OrderLoss(estimator="search"),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives(name):
    """Draws are of the device, so that other numbers come than on the CPU; they train all the same."""
    orderings = Learned(nn.Linear(D, 1)) if "orders" in name else Sampled(2)
    network, sets = on_cuda(network_of(orderings).train()), on_cuda(distinct_sets(SIZES))
    optimizer, objective = torch.optim.AdamW(network.parameters()), OBJECTIVES[name]()
    target, before = on_cuda(torch.randn(len(sets), 2)), numbers(network.rho.weight).clone()
    with cuda():
        for _ in range(2):
            optimizer.zero_grad()
            objective(network, sets, target).backward()
            optimizer.step()
    assert not numbers(network.rho.weight).equal(before)


def test_training_on_batches_of_neighbours():
    """GraphSAGE on batches of a NeighborLoader, with a loss of labels, clipped gradients and an optimiser."""
    loader = neighbor_loader()
    model = on_cuda(GraphSAGE(4, 3, aggregation="lstm", hidden_features=6))
    optimizer = torch.optim.Adam(model.parameters())
    before = [numbers(p).clone() for p in model.parameters()]
    with cuda():
        for batch in loader:
            hops = TwoHops.of_batch(batch)
            optimizer.zero_grad()
            logits = model.of_hops(sent(batch.x), hops.to("cuda"))
            nn.functional.cross_entropy(logits, sent(batch.y[: batch.batch_size])).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    assert any(not numbers(p).equal(was) for p, was in zip(model.parameters(), before, strict=True))


def test_a_step_of_the_estimators_waits_only_for_its_batch_and_its_loss():
    """The network and the weighed loss do not wait; batches cut on the device, and the loss in the history, do."""
    from janossy.estimators.batches import Examples  # noqa: PLC0415

    network, sets = on_cuda(network_of(Sampled(1)).train()), on_cuda(distinct_sets(SIZES))
    examples = Examples(sets, None, on_cuda(torch.randn(len(sets), 2)), on_cuda(torch.ones(len(sets))))
    with cuda():
        each = nn.functional.mse_loss(network(examples.sets), examples.targets, reduction="none").mean(1)
        loss = (each * examples.weights).mean()
        loss.backward()
        with pytest.raises(Waited):
            examples[on_cuda(torch.tensor([2, 0]))]
        with pytest.raises(Waited):
            loss.item()


RECORDED = {
    "GRU": (lambda: GRU(D, 3), Sampled(2), "packed"),
    "LSTM in chunks": (lambda: LSTM(D, 3), Sampled(4), "packed", {"memory_budget": 4000}),
    "cells": (lambda: GRU(D, 3, unrolled=True), Sampled(2), "packed"),
    "seeded": (lambda: GRU(D, 3), Sampled(2, seed=1), "gather"),
    "canonical": (lambda: GRU(D, 3), Canonical(), "packed"),
    "tuples": (lambda: TupleMLP(2, D, (5, 4)), Tuples(2), "projected"),
    "in torch": (lambda: TupleMLP(2, D, 5), Tuples(2), "fused"),
}


@pytest.mark.parametrize("name", RECORDED)
def test_a_step_on_equal_sizes_sends_nothing(name):
    """So that a CUDA graph may record it, once a first step has sent the constants."""
    build, orderings, evaluate, *options = RECORDED[name]
    layer = on_cuda(JanossyPooling(build(), orderings, evaluate=evaluate, **(options[0] if options else {})))
    sets = on_cuda(distinct_sets((5, 5, 5)))
    with cuda():
        layer(sets).square().sum().backward()
    with cuda(sends=False):
        layer(sets).square().sum().backward()
    uneven = on_cuda(distinct_sets((5, 4)))
    with (
        cuda(sends=False),
        pytest.raises(RuntimeError, match="recording a CUDA graph expects all sets to be of one size"),
    ):
        layer(uneven)


# What waits is found


WAITING = {
    "item": lambda x: x.sum().item(),
    "a condition": lambda x: bool(x.sum() > 0),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "cpu": lambda x: x.cpu(),
    "to the host": lambda x: x.to("cpu"),
    "nonzero": lambda x: x.nonzero(),
    "unique": lambda x: x.unique(),
    "a mask": lambda x: x[x > 0],
    "a mask to put at": lambda x: x.clone().index_put((x > 0,), x[:2, 0]),
    "masked_select": lambda x: x.masked_select(x > 0),
    "equal": lambda x: torch.equal(x, x),
    "bincount": lambda x: x.flatten().long().bincount(),
    "repeats": lambda x: x.repeat_interleave(torch.ones_like(x[:, 0]).long(), 0),
    "an ordinary copy": lambda x: torch.zeros(3).to("cuda"),
    "a tensor of numbers": lambda x: torch.tensor([1, 2], device="cuda"),
    "an index on the host": lambda x: x[torch.tensor([1, 0])],
}


@pytest.mark.parametrize("wait", WAITING.values(), ids=WAITING)
def test_what_waits_is_found(wait):
    with cuda(), pytest.raises(Waited):
        wait(on_cuda(torch.randn(4, 3)))


def test_waiting_is_found_in_backward_and_in_what_it_computes_again():
    class Reads(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient if gradient.sum() > 0 else -gradient

    x = on_cuda(torch.randn(3)).requires_grad_()
    with cuda(), pytest.raises(Waited):
        Reads.apply(x).sum().backward()
    with cuda():
        again = torch.utils.checkpoint.checkpoint(lambda: x * upload(torch.ones(3), x.device), use_reentrant=False)
    with cuda(sends=False), pytest.raises(RuntimeError, match="recording a CUDA graph"):
        again.sum().backward()


def test_two_devices_do_not_mix():
    with cuda(), pytest.raises(TwoDevices):
        on_cuda(torch.randn(3)) + torch.randn(3)
