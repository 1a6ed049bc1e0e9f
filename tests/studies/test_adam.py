"""Adam takes the steps of torch's, to the last bit, whatever it is asked."""

import copy

import pytest
import torch
from torch import nn

from studies.paper.adam import Adam


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


def trained(optimizer_of, *, num_steps: int = 4, schedule=None, hook=None, unused: bool = False):
    """Returns the network after a few steps, and the optimiser."""
    module = network()
    optimizer = optimizer_of(module)
    rates = None if schedule is None else schedule(optimizer)
    if hook is not None:
        optimizer.register_step_post_hook(hook)
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(1))
    for i in range(num_steps):
        optimizer.zero_grad()
        module(x).square().mean().backward()
        if unused and i % 2:
            module[0].bias.grad = None
        optimizer.step()
        if rates is not None:
            rates.step()
    return module, optimizer


def check_alike(a, b) -> None:
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        assert torch.equal(p, q)


def groups(module):
    return [{"params": list(module[0].parameters()), "lr": 0.1}, {"params": list(module[2].parameters())}]


@pytest.mark.parametrize(
    "options",
    [{}, {"weight_decay": 0.1, "betas": (0.5, 0.9), "eps": 1e-3}, {"maximize": True}, {"amsgrad": True}],
    ids=["default", "decay", "maximize", "amsgrad"],
)
@pytest.mark.parametrize("split", [False, True])
def test_the_steps_of_torch(options, split):
    def parameters(module):
        return groups(module) if split else module.parameters()

    ours, _ = trained(lambda m: Adam(parameters(m), lr=1e-2, **options))
    theirs, _ = trained(lambda m: torch.optim.Adam(parameters(m), lr=1e-2, fused=True, **options))
    check_alike(ours, theirs)


@pytest.mark.parametrize("case", ["schedule", "hook", "unused", "mixed"])
def test_schedules_hooks_and_weights_without_gradients(case):
    called = []

    def both(cls, **more):
        def build(module):
            if case == "mixed":
                module[2].double()
                module[1].register_forward_hook(lambda m, i, out: out.double())
            return cls(module.parameters(), lr=1e-2, **more)

        schedule = None if case != "schedule" else lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 1e-1, 10)
        hook = None if case != "hook" else lambda *_: called.append(1)
        return trained(build, schedule=schedule, hook=hook, unused=case == "unused")[0]

    check_alike(both(Adam), both(torch.optim.Adam, fused=True))
    assert len(called) == (8 if case == "hook" else 0)


def test_state_is_torchs():
    module, optimizer = trained(lambda m: Adam(m.parameters(), lr=1e-2))
    other = copy.deepcopy(module)
    theirs = torch.optim.Adam(other.parameters(), lr=1e-2, fused=True)
    theirs.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    x = torch.randn(7, 3)
    for _ in range(2):
        for one, by in ((module, optimizer), (other, theirs)):
            by.zero_grad()
            one(x).square().mean().backward()
            by.step()
    check_alike(module, other)
    again = Adam(other.parameters())
    again.load_state_dict(theirs.state_dict())
    assert again.param_groups[0]["lr"] == 1e-2 and again.state_dict()["state"][0]["step"] == 6


def test_a_closure_and_gradients_set_to_zero():
    module = network()
    optimizer = Adam(module.parameters())

    def closure():
        optimizer.zero_grad()
        loss = module(torch.ones(1, 3)).sum()
        loss.backward()
        return loss

    first, second = optimizer.step(closure), optimizer.step(closure)
    assert second < first
    optimizer.zero_grad(set_to_none=False)
    assert all(not p.grad.any() for p in module.parameters())
    optimizer.zero_grad()
    assert all(p.grad is None for p in module.parameters())
