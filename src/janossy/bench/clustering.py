"""Amortised clustering: networks that read a set of points, and say the mixture of Gaussians that it was drawn from.

The task is that of the Set Transformer (Lee et al., 2019, Section 5.3 and supplement 2.3.1): minus the log-likelihood
is the loss, and sets are never seen twice. All networks go through one loop, with the same sets and the same number of
steps, by far fewer than the paper's 50,000.
"""

import time
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from janossy.bench.mixtures import DIMENSIONS, NUM_COMPONENTS, NUM_OUTPUTS, Mixtures, draw
from janossy.estimators import Layout
from janossy.estimators.strategies import build_network
from janossy.inference import predict
from janossy.network import JanossyNetwork
from janossy.ragged import Ragged

try:
    from torch_geometric.nn.aggr import SetTransformerAggregation
    from torch_geometric.nn.aggr.utils import InducedSetAttentionBlock
except ImportError as error:
    raise ImportError("the peers of janossy bench need torch_geometric: pip install 'janossy[graph]'") from error

POINTS, NOTHING = Layout((), DIMENSIONS), Layout()
WIDTH, HEADS, INDUCED_POINTS = 128, 4, 16
"""As the paper's."""

BATCH, LEARNING_RATE, LONGEST_GRADIENT = 10, 1e-3, 1.0
"""Batch and rate are the paper's; rates follow one cycle here, there they fell to a tenth after 35,000 steps."""

NUM_TEST, TEST_SEED = 1000, 2019
MOST_EM = 100

NUM_TUPLES = 256
"""Pairs or triples of each set that are drawn, as all of them are too many: for a step, and for each draw of a test."""
NUM_DRAWS = 20

Factory = Callable[[Layout, Layout, int], nn.Module]
"""The layouts of elements and context, and the number of outputs -> a network of sets."""


def strategy(name: str, depth: int) -> Factory:
    """Ours, as wide as the paper's networks."""

    def build(elements: Layout, context: Layout, num_outputs: int) -> nn.Module:
        settings = {"width": WIDTH, "depth": depth, "readout_depth": 3, "num_tuples": NUM_TUPLES, "exact": False}
        return build_network(name, elements, context, num_outputs, **settings)

    return build


class MeanPooling(nn.Module):
    """Deep Sets as the paper has it, "rFF + Pooling": (N, d) -> (B, out)."""

    def __init__(self, in_features: int, num_outputs: int) -> None:
        super().__init__()
        self.phi = nn.Sequential(*_layers(in_features, 4))
        self.rho = nn.Sequential(*_layers(WIDTH, 3), nn.Linear(WIDTH, num_outputs))

    def forward(self, sets: Ragged, *, generator: torch.Generator | None = None) -> Tensor:
        _, owners = sets.to_index()
        sums = sets.values.new_zeros(len(sets), WIDTH).index_add(0, owners, self.phi(sets.values))
        return self.rho(sums / sets.offsets.diff()[:, None])


class InducedSetTransformer(nn.Module):
    """The Set Transformer, "ISAB (16) + PMA": of each component a seed, whose vector becomes its parameters."""

    def __init__(self, in_features: int, num_outputs: int) -> None:
        super().__init__()
        self.phi = nn.Linear(in_features, WIDTH)
        self.pooling = SetTransformerAggregation(WIDTH, NUM_COMPONENTS, 0, 1, HEADS)
        self.pooling.encoders = nn.ModuleList(
            InducedSetAttentionBlock(WIDTH, INDUCED_POINTS, HEADS, layer_norm=False) for _ in range(2)
        )
        self.rho = nn.Linear(WIDTH, num_outputs // NUM_COMPONENTS)

    def forward(self, sets: Ragged, *, generator: torch.Generator | None = None) -> Tensor:
        _, owners = sets.to_index()
        seeds = self.pooling(self.phi(sets.values), owners, dim_size=len(sets))
        return self.rho(seeds.unflatten(1, (NUM_COMPONENTS, WIDTH))).flatten(1)


MODELS: dict[str, Factory] = {
    "k1": strategy("k1", 3),
    "k2": strategy("k2", 3),
    "k3": strategy("k3", 3),
    "attention": strategy("attention", 3),
    "gru": strategy("gru", 1),
    "deepsets": lambda elements, context, num_outputs: MeanPooling(elements.num_columns, num_outputs),
    "set-transformer-isab": lambda elements, context, num_outputs: InducedSetTransformer(
        elements.num_columns, num_outputs
    ),
}


def fit_and_score(factory: Factory, seed: int, num_steps: int) -> dict[str, float]:
    """Train a network, and score it on ``NUM_TEST`` sets, which are the same for all."""
    torch.manual_seed(seed)
    network = factory(POINTS, NOTHING, NUM_OUTPUTS)
    start = time.process_time()
    fit(network, seed, num_steps)
    fitted = time.process_time()
    sets, _ = test_sets()
    mixtures = predicted(network, sets)
    return scored(mixtures, sets) | {
        "seconds_fit": fitted - start,
        "seconds_predict": time.process_time() - fitted,
        "parameters": sum(p.numel() for p in network.parameters()),
    }


def fit(network: nn.Module, seed: int, num_steps: int) -> list[float]:
    """AdamW with one cycle of the learning rate, on fresh sets at every step; the loss of each."""
    source = torch.Generator().manual_seed(seed)
    draws = torch.Generator().manual_seed(seed + 1)
    optimizer = torch.optim.AdamW(network.parameters(), LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, num_steps, pct_start=0.1)
    losses = []
    network.train()
    for _ in range(num_steps):
        sets, _ = draw(BATCH, source)
        loss = -Mixtures.of(network(sets, generator=draws)).log_likelihood(sets).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), LONGEST_GRADIENT)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def predicted(network: nn.Module, sets: Ragged) -> Mixtures:
    """What the network says of each set; of ours that draw pairs or orders, the mean of ``NUM_DRAWS`` draws."""
    network.eval()
    outputs = []
    for begin in range(0, len(sets), BATCH):
        part = sets[begin : begin + BATCH]
        drawn = isinstance(network, JanossyNetwork)
        outputs.append(predict(network, part, NUM_DRAWS).mean if drawn else network(part))
    return Mixtures.of(torch.cat(outputs))


def oracle() -> dict[str, dict[str, float]]:
    """The scores of the parameters that the test sets were drawn by, and of EM from these until it stands still."""
    sets, mixtures = test_sets()
    best = mixtures
    for _ in range(MOST_EM):
        best = best.after_em(sets)
    return {"the true parameters": scored(mixtures, sets), "EM from the true parameters": scored(best, sets)}


def test_sets() -> tuple[Ragged, Mixtures]:
    """The sets that all are scored on, and what they were drawn from."""
    return draw(NUM_TEST, torch.Generator().manual_seed(TEST_SEED))


def scored(mixtures: Mixtures, sets: Ragged) -> dict[str, float]:
    """The log-likelihood a point, its standard error over sets, and what it is after a step of EM."""
    found = mixtures.log_likelihood(sets)
    return {
        "log_likelihood": float(found.mean()),
        "error": float(found.std() / len(found) ** 0.5),
        "after_em": float(mixtures.after_em(sets).log_likelihood(sets).mean()),
    }


def _layers(in_features: int, num: int) -> list[nn.Module]:
    widths = [in_features, *[WIDTH] * num]
    return [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
