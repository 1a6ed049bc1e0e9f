"""The expectations of auto for a GPU, by its properties, and the words about a GPU that does not suffice."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from janossy import GRU, JanossyNetwork, JanossyPooling, Sampled, TupleMLP, Tuples
from janossy.evaluate import Problem, candidates
from janossy.evaluate.cost import Cost, Rates
from janossy.evaluate.gpu import UNKNOWN_BANDWIDTH, Gpu
from janossy.graph import GraphSAGE, TwoHops
from tests.examples import D, distinct_sets
from tests.standin import A100, cuda, on_cuda

PROPERTIES = {
    "name": "NVIDIA H100 80GB HBM3",
    "major": 9,
    "minor": 0,
    "multi_processor_count": 132,
    "clock_rate": 1_980_000,
    "memory_clock_rate": 2_619_000,
    "memory_bus_width": 5120,
}


def test_peaks_are_those_of_the_data_sheets():
    """NVIDIA's: 67 Tflop/s and 3.35 TB/s of an H100 (SXM), 19.5 Tflop/s and 2.04 TB/s of an A100 (80 GB)."""
    h100 = Gpu.of(SimpleNamespace(**PROPERTIES))
    assert h100.flops_per_second == pytest.approx(67e12, rel=0.01)
    assert h100.bytes_per_second == pytest.approx(3.35e12, rel=0.01)
    assert A100.flops_per_second == pytest.approx(19.5e12, rel=0.01)
    assert A100.bytes_per_second == pytest.approx(2.04e12, rel=0.01)
    assert A100.specials_per_second == pytest.approx(108 * 16 * 1.41e9)


@pytest.mark.parametrize("unknown", ["memory_clock_rate", "memory_bus_width"])
def test_a_gpu_that_reports_no_memory_has_a_rate(unknown):
    """Systems on a chip do so, whose memory is the host's."""
    gpu = Gpu.of(SimpleNamespace(**PROPERTIES | {unknown: 0}))
    assert gpu.bytes_per_second == UNKNOWN_BANDWIDTH and gpu.seconds(bytes=UNKNOWN_BANDWIDTH) == 1


def test_the_roofline_is_the_slowest_of_three():
    assert A100.seconds(flops=A100.flops_per_second) == 1
    assert A100.seconds(flops=1, bytes=2 * A100.bytes_per_second, specials=A100.specials_per_second) == 2
    assert A100.seconds(bytes=1, specials=3 * A100.specials_per_second) == 3


def test_launches_count_where_they_take_time():
    cost = Cost(flops=0, bytes=0, launches=100, rates=A100.rates)
    assert cost.seconds == pytest.approx(5e-4)
    assert Cost(flops=0, bytes=0, launches=100, rates=Rates()).seconds == 0


def names(f, orderings, sizes, width=D):
    """Returns the evaluators that apply, the fastest first, as expected on the device."""
    sets = on_cuda(distinct_sets(sizes).with_values(torch.randn(sum(sizes), width)))
    with cuda():
        return [c.evaluator.name for c in candidates(Problem(f, orderings, sets)) if c.cost]


def test_rows_of_many_lengths_are_packed_on_a_gpu():
    f = on_cuda(GRU(64, 64))
    assert names(f, Sampled(20), tuple(range(1, 60)), 64)[0] == "packed"


def test_steps_one_by_one_are_expected_to_take_longer_than_cudnn():
    sizes = (50,) * 20
    with cuda():
        problem = Problem(on_cuda(GRU(D, 8)), Sampled(2), on_cuda(distinct_sets(sizes)))
        unrolled = Problem(on_cuda(GRU(D, 8, unrolled=True)), Sampled(2), problem.elements)
        fast, slow = ({c.evaluator.name: c.cost for c in candidates(each)} for each in (problem, unrolled))
    assert slow["packed"].seconds > 3 * fast["packed"].seconds


def test_explain_says_that_nothing_was_measured():
    layer, sets = on_cuda(JanossyPooling(TupleMLP(2, D, 4), Tuples(2))), on_cuda(distinct_sets((3, 4)))
    with cuda():
        problem = layer.problem(sets, None, None, "mean", None)
        text = layer.choice.explain(problem)
    assert "as expected of NVIDIA A100, 108 multiprocessors at 1.41 GHz, 2.04 TB/s; not measured" in text
    assert "not measured" not in JanossyPooling(TupleMLP(2, D, 4), Tuples(2)).explain(distinct_sets((3, 4)))


# Bad input


@pytest.mark.parametrize("evaluate", ["auto", "gather", "packed", "shared_prefixes"])
def test_sets_and_weights_on_two_devices(evaluate):
    f, orderings = GRU(D, 3), Tuples(2)
    with cuda():
        there = JanossyPooling(f, orderings, evaluate=evaluate)
        with pytest.raises(ValueError, match=r"f, a GRU, expects elements on cpu, .*; got cuda:0. Move the sets"):
            there(on_cuda(distinct_sets((3, 2))))
        with pytest.raises(ValueError, match=r"f, a GRU, expects elements on cuda:0, .*; got cpu. Move the sets"):
            JanossyPooling(on_cuda(GRU(D, 3)), orderings, evaluate=evaluate)(distinct_sets((3, 2)))


def test_keys_and_context_on_another_device():
    network = on_cuda(JanossyNetwork(None, JanossyPooling(GRU(D, 3), Sampled(2)), None))
    sets = distinct_sets((3, 2))
    with cuda():
        with pytest.raises(ValueError, match="expects keys on the sets' device, cuda:0; got cpu"):
            network.pooling(on_cuda(sets), keys=sets)
        with pytest.raises(ValueError, match=r"on the sets' device, cuda:0; got cpu. Move it with .to"):
            network(on_cuda(sets), context=torch.zeros(2, 1))


def test_features_and_neighbours_on_two_devices():
    inner, sets = torch.arange(2), distinct_sets((1, 1)).with_values(torch.zeros(2).long())
    hops, model = TwoHops(inner, sets, sets, inner), on_cuda(GraphSAGE(D, 2, aggregation="mean", hidden_features=4))
    with cuda(), pytest.raises(ValueError, match="features on the device of the neighbours, cpu; got cuda:0"):
        model.of_hops(on_cuda(torch.zeros(2, D)), hops)


class TooLarge(nn.Module):
    """An f for whose rows a GPU has no room."""

    def forward(self, x):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def test_too_little_memory_is_told_with_what_to_do():
    layer = JanossyPooling(TooLarge(), Sampled(2), memory_budget=12345)
    remedy = r"memory_budget=12345 bytes.*smaller memory_budget, smaller batches, or orderings of fewer rows"
    with pytest.raises(torch.OutOfMemoryError, match=f"(?s){remedy}.*Tried to allocate 2.00 GiB"):
        layer(distinct_sets((3, 2)))
