import pytest
import torch

from janossy import JanossyNetwork, JanossyPooling, Ragged, TupleProduct, Tuples
from studies.paper.arithmetic.models import MODELS
from studies.paper.arithmetic.tasks import TASKS
from studies.paper.arithmetic.whitening import whiten


@pytest.mark.parametrize("task", ["variance", "unique_sum"])
@pytest.mark.parametrize("name", ["lstm-linear", "gru-mlp", "k1-mlp", "k3-linear"])
def test_the_network_stays_and_its_embedding_is_orthogonal(task, name):
    torch.manual_seed(0)
    task = TASKS[task]
    network = MODELS[name].build(task, "sum", "uniform")
    x = Ragged.from_padded(task.draw(7, 0)[0])
    with torch.no_grad():
        torch.manual_seed(1)
        before, size = network(x), network.h.weight.square().sum()
        whiten(network)
        torch.manual_seed(1)
        torch.testing.assert_close(network(x), before, rtol=1e-4, atol=1e-5)
    values = torch.linalg.svdvals(network.h.weight)[: min(task.vocabulary, network.h.weight.shape[1])]
    torch.testing.assert_close(values, values[:1].expand_as(values), rtol=1e-4, atol=0)
    torch.testing.assert_close(network.h.weight.square().sum(), size, rtol=1e-4, atol=0)


def test_an_unknown_f_is_refused():
    network = JanossyNetwork(torch.nn.Embedding(5, 4), JanossyPooling(TupleProduct(2, 4, 3), Tuples(2)), None)
    with pytest.raises(TypeError, match="expected a recurrence or a TupleMLP as f, got TupleProduct"):
        whiten(network)
