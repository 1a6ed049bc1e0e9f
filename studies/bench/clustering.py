"""Networks that predict mixtures. The loss is minus the log-likelihood, and one loop trains our networks and peers."""

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from janossy import JanossyNetwork, JanossyPooling, Ragged, TupleMLP, Tuples, predict
from janossy.estimators.strategies import build_network
from janossy.nn import (
    ConcatenatedElements,
    Relations,
    Residual,
    SeedAttention,
    SetEncoder,
    SlotAttention,
    attention_blocks,
)
from janossy.tables import Layout, SetTable
from studies.bench.mixtures import DIMENSIONS, NUM_COMPONENTS, NUM_OUTPUTS, Mixtures
from studies.bench.peers.mixtures import INDUCED_POINTS, WIDTH, InducedSetTransformer, MeanPooling

BATCH, LEARNING_RATE = 10, 1e-3
"""The settings of Lee et al. Here rates follow one cycle; theirs fell to a tenth after 35,000 of 50,000 steps."""

LONGEST_GRADIENT = 1.0

NUM_TUPLES, NUM_DRAWS = 256, 20
"""The sampled pairs or triples of each set, because all are too many, and the number of samples in a prediction."""

RATES = {"slots+moments": 5e-4}
"""Other rates of single models. After 1,000 steps, with keys of a quarter of the width, a rate of 1e-3 gave this one
−1.62, and 5e-4 gave −1.60. Other models were not tried at 5e-4."""

NUM_BLOCKS = 3
"""The blocks in which points relate to each other. The peer has two, as in the paper."""

NUM_ROUNDS = 6
"""The rounds of slots, behind one block. Two blocks and four rounds learn more slowly."""


class MixtureEstimator:
    """A network of sets that is trained on each set once, or ``num_passes`` times.

    Shapes: sets of two columns -> ``predict``: the input of ``Mixtures.of``, (B, NUM_OUTPUTS).
    """

    def __init__(self, model: str, seed: int, num_passes: int) -> None:
        self.model, self.seed, self.num_passes = model, seed, num_passes

    def fit(self, sets: SetTable, targets: np.ndarray | None = None) -> Self:
        """Trains by AdamW with one cycle of the learning rate, in batches of sets in their given order."""
        with torch.random.fork_rng([]):
            torch.manual_seed(self.seed)
            self.network = NETWORKS[self.model]()
        self.network.train()
        self.losses: list[float] = []
        points, generator = _points(sets), torch.Generator().manual_seed(self.seed)
        begins = [*range(0, len(points), BATCH)] * self.num_passes
        rate = RATES.get(self.model, LEARNING_RATE)
        optimizer = torch.optim.AdamW(self.network.parameters(), rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, len(begins), pct_start=0.1)
        for begin in begins:
            some = points[begin : begin + BATCH]
            loss = -Mixtures.of(self.network(some, generator=generator)).log_likelihood(some).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), LONGEST_GRADIENT)
            optimizer.step()
            schedule.step()
            self.losses.append(loss.item())
        return self

    @torch.no_grad()
    def predict(self, sets: SetTable) -> np.ndarray:
        """Returns the outputs, averaged over ``NUM_DRAWS`` samples if the network samples. Repeated calls agree."""
        network, points, outputs = self.network.eval(), _points(sets), []
        for begin in range(0, len(points), BATCH):
            some = points[begin : begin + BATCH]
            if isinstance(network, JanossyNetwork):
                outputs.append(predict(network, some, NUM_DRAWS, seed=0).mean)
            else:
                outputs.append(network(some))
        return torch.cat(outputs).numpy()


def of_mixtures(names: Sequence[str], sets: SetTable, truth: np.ndarray, outputs: np.ndarray) -> dict[str, float]:
    """Returns mean log-likelihoods per point: of the network's mixture, after a step of EM, and of the truth."""
    points, said = _points(sets), Mixtures.of(torch.from_numpy(outputs))
    found = {
        "log-likelihood": said.log_likelihood(points),
        "log-likelihood after EM": said.after_em(points).log_likelihood(points),
        "of the true parameters": torch.from_numpy(truth),
    }
    return {name: float(found[name].mean()) for name in names}


def _points(sets: SetTable) -> Ragged:
    columns = [torch.from_numpy(np.ascontiguousarray(column.values)) for column in sets.elements.values()]
    return Ragged(torch.stack(columns, dim=1), torch.from_numpy(sets.offsets), sizes=sets.sizes.tolist())


def _encoder(blocks: Callable[[], list[nn.Module]], pool: Callable[[], list[nn.Module]]) -> Callable[[], nn.Module]:
    """Returns the builder of blocks that relate points, and of layers that give the parameters of each component.

    Readouts of all seeds side by side, as the strategies have them, learn several times as slowly.
    """

    def build() -> JanossyNetwork:
        layers = [nn.Linear(DIMENSIONS, WIDTH), *blocks(), *pool(), ConcatenatedElements(NUM_COMPONENTS)]
        return JanossyNetwork(pooling=JanossyPooling(nn.Flatten(), Tuples(1)), encoder=SetEncoder(layers))

    return build


def _by_seeds() -> list[nn.Module]:
    seeds = SeedAttention(WIDTH, num_seeds=NUM_COMPONENTS)
    return [seeds, *attention_blocks(WIDTH, num_blocks=1), *_parameters()]


def _by_slots() -> list[nn.Module]:
    return [SlotAttention(WIDTH, num_slots=NUM_COMPONENTS, num_rounds=NUM_ROUNDS), *_parameters()]


def _by_slots_with_moments() -> list[nn.Module]:
    slots = SlotAttention(WIDTH, num_slots=NUM_COMPONENTS, num_rounds=NUM_ROUNDS, input_features=DIMENSIONS)
    return [slots, _CorrectedMoments()]


def _parameters() -> list[nn.Module]:
    """Returns the layers that map the vector of a component to its parameters."""
    return [nn.LayerNorm(WIDTH), nn.Linear(WIDTH, NUM_OUTPUTS // NUM_COMPONENTS)]


class _CorrectedMoments(nn.Module):
    """The parameters of a component: the moments of a slot, plus a linear map of the slot that begins as zero.

    Shapes: (…, WIDTH + 1 + 2·DIMENSIONS), the output of a ``SlotAttention`` that reads moments -> (…, 1 +
        2·DIMENSIONS), which ``Mixtures.of`` reads.
    """

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.correction = nn.Linear(WIDTH, 1 + 2 * DIMENSIONS)
        nn.init.zeros_(self.correction.weight)
        nn.init.zeros_(self.correction.bias)

    def forward(self, x: Tensor) -> Tensor:
        slots, places, log_scales = x.split((WIDTH, 1 + DIMENSIONS, DIMENSIONS), dim=-1)
        scales = log_scales.exp()
        before_softplus = scales + torch.log(-torch.expm1(-scales))
        corrections: Tensor = self.correction(self.norm(slots))
        return corrections + torch.cat((places, before_softplus), dim=-1)


def _induced(num_blocks: int) -> Callable[[], list[nn.Module]]:
    return lambda: attention_blocks(WIDTH, num_blocks=num_blocks, num_points=INDUCED_POINTS)


def _relations() -> list[nn.Module]:
    def block() -> Residual:
        return Residual(
            Relations(TupleMLP(2, WIDTH, WIDTH, out_features=WIDTH, activation="tanh")), norm=nn.LayerNorm(WIDTH)
        )

    return [block() for _ in range(NUM_BLOCKS)]


def _strategy(name: str, depth: int = 3) -> Callable[[], nn.Module]:
    settings = {"width": WIDTH, "depth": depth, "readout_depth": 3, "num_tuples": NUM_TUPLES, "exact": False}
    return lambda: build_network(name, Layout((), DIMENSIONS), Layout(), NUM_OUTPUTS, **settings)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "k1": _strategy("k1"),
    "k2": _strategy("k2"),
    "k2+features": _strategy("k2+features"),
    "k3": _strategy("k3"),
    "max": _strategy("max"),
    "attention": _strategy("attention"),
    "gru": _strategy("gru", 1),
    "self-attention": _encoder(lambda: attention_blocks(WIDTH, num_blocks=NUM_BLOCKS), _by_seeds),
    "induced": _encoder(_induced(NUM_BLOCKS), _by_seeds),
    "relations": _encoder(_relations, _by_seeds),
    "slots": _encoder(_induced(1), _by_slots),
    "slots+moments": _encoder(_induced(1), _by_slots_with_moments),
    "deepsets": MeanPooling,
    "set-transformer-isab": InducedSetTransformer,
}
