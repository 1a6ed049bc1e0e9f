"""Means over a group's images: by brute force in float64, their laws, their gradients; bad input."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from janossy import GRU, LSTM, JanossyPooling, Ragged, TupleMLP, TupleProduct
from janossy.nn.groups import Group, GroupImages, GroupPooling, cyclic, dihedral, improper, reversal, symmetric
from tests.laws import close
from tests.nn.groups.test_group import GROUPS

pytestmark = pytest.mark.usefixtures("float64")

FUNCTIONS = {
    "tuple_mlp": lambda k: TupleMLP(k, 3, (5, 4), out_features=2),
    "tuple_product": lambda k: TupleProduct(k, 3, 4, out_features=2),
    "gru": lambda k: GRU(3, 4),
    "lstm": lambda k: LSTM(3, 2),
    "linear": lambda k: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * k, 2), torch.nn.Tanh()),
}
N = 7


def some_tuples(k: int, num: int = 5) -> torch.Tensor:
    return torch.stack([torch.randperm(N)[:k] for _ in range(num)]) if num else torch.zeros(0, k, dtype=torch.long)


def by_brute_force(f, group: Group, values, tuples):
    rows = []
    for positions in tuples.tolist():
        images = [values[[positions[i] for i in g]] for g in group.permutations]
        signs = group.signs or [1] * len(group)
        rows.append(sum(sign * f(x[None])[0] for sign, x in zip(signs, images, strict=True)) / len(group))
    return torch.stack(rows)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", GROUPS)
def test_is_the_mean_by_brute_force(name, function):
    group = GROUPS[name]
    f = FUNCTIONS[function](group.k)
    values, tuples = torch.randn(N, 3), some_tuples(group.k)
    close(GroupPooling(f, group)(values, tuples), by_brute_force(f, group, values, tuples))


@pytest.mark.parametrize("name", GROUPS)
def test_every_member_leaves_it_or_turns_its_sign(name):
    group = GROUPS[name]
    pool = GroupPooling(TupleMLP(group.k, 3, 6, out_features=2), group)
    values, tuples = torch.randn(N, 3), some_tuples(group.k)
    expected = pool(values, tuples)
    for g, sign in zip(group.permutations, group.signs or [1] * len(group), strict=True):
        close(pool(values, tuples[:, list(g)]), sign * expected)


def test_what_is_no_member_changes_it():
    """The law above can fail: a torsion is no set of four atoms."""
    pool, values, tuples = GroupPooling(TupleMLP(4, 3, 6), reversal(4)), torch.randn(N, 3), some_tuples(4)
    assert (pool(values, tuples[:, [1, 0, 2, 3]]) - pool(values, tuples)).abs().max() > 1e-3


def test_all_permutations_are_those_of_sets():
    f, values, tuples = TupleMLP(3, 3, 4), torch.randn(N, 3), some_tuples(3)
    from_sets = JanossyPooling(f, GroupImages(symmetric(3)))(Ragged.from_padded(values[tuples]))
    close(GroupPooling(f, symmetric(3))(values, tuples), from_sets)
    for order in ([0, 2, 1], [2, 1, 0]):
        close(GroupPooling(f, symmetric(3))(values, tuples[:, order]), from_sets)


@pytest.mark.parametrize("evaluate", ["gather", "projected", "packed"])
@pytest.mark.parametrize("name", ["torsion", "torsion_odd", "ring_either_way"])
@pytest.mark.parametrize("memory_budget", [2**30, 500])
def test_evaluators_and_chunks_agree(name, evaluate, memory_budget):
    f = GRU(3, 4) if evaluate == "packed" else TupleMLP(4, 3, 6, out_features=2)
    values, tuples = torch.randn(N, 3, requires_grad=True), some_tuples(4, 9)
    pool = GroupPooling(f, GROUPS[name], evaluate=evaluate, memory_budget=memory_budget)
    found, expected = pool(values, tuples), by_brute_force(f, GROUPS[name], values, tuples)
    close(found, expected)
    inputs = [values, *f.parameters()]
    for a, b in zip(
        torch.autograd.grad(found.sin().sum(), inputs), torch.autograd.grad(expected.sin().sum(), inputs), strict=True
    ):
        close(a, b)


@pytest.mark.parametrize("name", ["torsion_odd", "improper_1", "triangle"])
def test_gradients(name):
    group = GROUPS[name]
    pool, tuples = GroupPooling(TupleMLP(group.k, 2, 3, out_features=2), group), some_tuples(group.k, 3)
    values = torch.randn(N, 2, requires_grad=True)
    for check in (gradcheck, gradgradcheck):
        assert check(lambda x: pool(x, tuples), (values,), fast_mode=True)


def test_duplicates():
    """Equal values and equal tuples are as any others; with a sign, a tuple that equals its image is 0."""
    f, values = TupleMLP(4, 3, 5), torch.randn(N, 3)
    values[3], values[2] = values[0], values[1]
    tuples = torch.tensor([[0, 1, 2, 3], [0, 1, 2, 3], [4, 5, 6, 0]])
    close(GroupPooling(f, reversal(4))(values, tuples), by_brute_force(f, reversal(4), values, tuples))
    odd = GroupPooling(f, reversal(4, signs=[1, -1]))(values, tuples)
    close(odd[:2], torch.zeros(2, 5))
    assert odd[2].abs().max() > 1e-3


@pytest.mark.parametrize("name", ["bond", "torsion_odd", "none"])
@pytest.mark.parametrize("num_values", [0, N])
def test_no_tuples(name, num_values):
    group = GROUPS[name]
    pool, values = GroupPooling(TupleMLP(group.k, 3, 4), group), torch.randn(num_values, 3, requires_grad=True)
    empty = torch.zeros(0, group.k, dtype=torch.int32)
    result = pool(values, empty)
    assert result.shape == (0, 4)
    pooled = pool.of_sets(Ragged.from_sizes(values, [num_values, 0]), empty, "mean")
    assert torch.equal(pooled, torch.zeros(2, 4))
    (pooled.sum() + result.sum()).backward()
    assert all(torch.equal(p.grad, torch.zeros_like(p)) for p in pool.parameters())


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("name", ["bond", "torsion_odd"])
def test_molecules(name, reduce):
    """Each by itself, with its own numbers; those without tuples are 0."""
    group = GROUPS[name]
    pool = GroupPooling(TupleMLP(group.k, 3, 4), group)
    molecules = [torch.randn(n, 3) for n in (5, 0, 4, 1, 7)]
    of_each = [torch.stack([torch.randperm(len(x))[: group.k] for _ in range(3)]) for x in molecules if len(x) > 3]
    tuples = torch.cat([t + start for t, start in zip(of_each, (0, 5, 10), strict=True)])
    order = torch.randperm(len(tuples))
    found = pool.of_sets(Ragged.from_sets(molecules), tuples[order], reduce)
    rows = [getattr(pool(molecules[b], t), reduce)(0) for b, t in zip((0, 2, 4), of_each, strict=True)]
    close(found[[0, 2, 4]], torch.stack(rows))
    assert torch.equal(found[[1, 3]], torch.zeros(2, 4))


def test_sums_of_half_precision_are_made_in_float32():
    """The sums of 1000 tuples, 100 each, are beyond what float16 holds; their mean is not."""
    pool = GroupPooling(lambda rows: rows.new_full((len(rows), 1), 100.0), reversal(2))
    sets = Ragged.from_sets([torch.zeros(2, 1, dtype=torch.float16)])
    assert pool.of_sets(sets, torch.tensor([[0, 1]]).expand(1000, 2), "mean").item() == 100


SETS = Ragged.from_sizes(torch.zeros(6, 3), [4, 0, 2])


@pytest.mark.parametrize(
    "tuples, message",
    [
        ([[0, 1], [2, 6]], r"positions from 0 to 5; got \[2, 6\] as tuple 1, which leaves them"),
        ([[-1, 0], [0, 1], [0, 9]], r"got \[-1, 0\] as tuple 0 \(and 1 more\)"),
        ([[0, 1], [2, 2]], r"distinct elements; got \[2, 2\] as tuple 1, which holds one twice"),
        ([[0, 1, 2]], r"tuples \(T, 2\).*got torch.int64 of shape \(1, 3\)"),
        ([0, 1], r"got torch.int64 of shape \(2,\)"),
        ([[0.0, 1.0]], "as integers; got torch.float64"),
        ([[True, False]], "as integers; got torch.bool"),
        ([], r"No tuples at all are torch.zeros\(0, 2, dtype=torch.long\)"),
    ],
)
def test_bad_tuples(tuples, message):
    pool = GroupPooling(TupleMLP(2, 3, 4), reversal(2))
    for call in (lambda t: pool(SETS.values, t), lambda t: pool.of_sets(SETS, t)):
        with pytest.raises(ValueError, match=message):
            call(torch.tensor(tuples))


def test_more_bad_input():
    pool = GroupPooling(TupleMLP(2, 3, 4), reversal(2))
    tuples = torch.tensor([[0, 1]])
    with pytest.raises(ValueError, match=r"of one set each; got \[3, 4\] as tuple 0, .* several sets"):
        pool.of_sets(SETS, torch.tensor([[3, 4]]))
    with pytest.raises(ValueError, match=r"distinct elements; got \[0, 1, 0\] as tuple 0, which holds one twice"):
        GroupPooling(TupleMLP(3, 3, 4), cyclic(3))(SETS.values, torch.tensor([[0, 1, 0]]))
    with pytest.raises(ValueError, match="no tuples, as there are no values"):
        pool(torch.zeros(0, 3), tuples)
    with pytest.raises(ValueError, match="'sum' or 'mean'; got 'max'"):
        pool.of_sets(SETS, tuples, "max")
    with pytest.raises(TypeError, match="Ragged batch"):
        pool.of_sets(SETS.values, tuples)
    with pytest.raises(TypeError, match="of_sets"):
        pool(SETS, tuples)
    with pytest.raises(TypeError, match=r"tuples.*as a tensor; got list"):
        pool(SETS.values, [[0, 1]])
    with pytest.raises(TypeError, match="GroupImages expects a Group"):
        GroupPooling(pool.pooling.f, [(0, 1), (1, 0)])
    with pytest.raises(TypeError, match="expects f"):
        GroupPooling(3, reversal(2))
    with pytest.raises(ValueError, match=r"the same k for f and orderings; got TupleMLP of k=2"):
        GroupPooling(TupleMLP(2, 3, 4), improper(0))(torch.zeros(4, 3), torch.tensor([[0, 1, 2, 3]]))
    with pytest.raises(ValueError, match="expects tuples of 3 elements; got one of 2"):
        JanossyPooling(GRU(3, 4), GroupImages(cyclic(3)))(Ragged.from_sizes(torch.zeros(5, 3), [3, 2]))
    with pytest.raises(ValueError, match="weighs its rows"):
        JanossyPooling(GRU(3, 4), GroupImages(reversal(2, signs=[1, -1])), reduce="max")(
            Ragged.from_padded(torch.zeros(1, 2, 3))
        )


def test_tuples_on_any_integers_and_saved_weights():
    pool, other = (GroupPooling(TupleMLP(3, 3, 4), dihedral(3)) for _ in range(2))
    other.load_state_dict(pool.state_dict())
    tuples = some_tuples(3)
    values = torch.randn(N, 3)
    assert torch.equal(pool(values, tuples), other(values, tuples.to(torch.int16)))
