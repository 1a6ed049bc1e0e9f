"""The rows of the comparison, and their training: on sets of one size at a time, in the same number of steps."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import process_time

import numpy as np
import torch
from torch import nn

from janossy import GRU, Ragged
from janossy.density import Autoregressive, Bounded, Categories, ExchangeableDensity, Head, IidMixture
from studies.experiments.density.energy import DeepSetsEnergy, base_of
from studies.experiments.density.symmetric import Bruno, Polya

BATCH, LEARNING_RATE = 64, 5e-3
CORRELATIONS = (0.1, 0.01, 0.001)
"""The initial correlations of elements for the training of an exchangeable process. The result depends on them, and
validation chooses.
"""

Model = ExchangeableDensity | DeepSetsEnergy


def _of_order(k: int | None) -> Callable[[Head], Model]:
    def build(head: Head) -> Model:
        reader = GRU(head.num_features, 64, per_position=True)
        return ExchangeableDensity(Autoregressive(reader, head, k=k))

    return build


def _exchangeable_process(head: Head, correlation: float = CORRELATIONS[0]) -> Model:
    q = Bruno(head, correlation) if isinstance(head, Bounded) else Polya(_categories(head), correlation)
    return ExchangeableDensity(q)


def _categories(head: Head) -> Categories:
    assert isinstance(head, Categories)
    return head


MODELS: dict[str, Callable[[Head], Model]] = {
    "k = 1, independent": lambda head: ExchangeableDensity(IidMixture(head)),
    "k = 1, 32 kinds": lambda head: ExchangeableDensity(IidMixture(head, num_components=32)),
    "k = 2": _of_order(2),
    "k = 3": _of_order(3),
    "k = n": _of_order(None),
    "BRUNO-like": _exchangeable_process,
    "DeepSets energy": lambda head: DeepSetsEnergy(base_of(head)),
}


@dataclass(frozen=True)
class Fitted:
    """A trained model with its CPU seconds, and for an exchangeable process its initial correlation."""

    model: Model
    seconds: float
    correlation: float | None = None


def fit(name: str, head: Head, train: Ragged, validation: Ragged, seed: int, steps: int) -> Fitted:
    """Returns the trained model: the best of several starts on validation."""
    began = process_time()
    if MODELS[name] is not _exchangeable_process:
        return Fitted(_fitted(MODELS[name], head, train, seed, steps), process_time() - began)
    models = [_fitted(partial(_exchangeable_process, correlation=c), head, train, seed, steps) for c in CORRELATIONS]
    with torch.no_grad():
        scores = [float(model.log_prob(validation).log_prob.mean()) for model in models]
    best = int(np.argmax(scores))
    return Fitted(models[best], process_time() - began, CORRELATIONS[best])


def _fitted(make: Callable[[Head], Model], head: Head, train: Ragged, seed: int, steps: int) -> Model:
    torch.manual_seed(seed)
    model = make(head)
    if isinstance(model, DeepSetsEnergy):
        model.base.requires_grad_(True)
        _train(model.base, train, seed, steps)
        model.base.requires_grad_(False)
    _train(model, train, seed, steps)
    return model.eval()


def _train(model: nn.Module, train: Ragged, seed: int, steps: int) -> None:
    random = np.random.default_rng(seed)
    sizes = np.array(train.sizes)
    of_size = {int(n): np.flatnonzero(sizes == n) for n in np.unique(sizes) if n > 0}
    shares = np.array([len(sets) for sets in of_size.values()]) / sum(map(len, of_size.values()))
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(weights, lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, steps, pct_start=0.1)
    model.train()
    for _ in range(steps):
        sets = of_size[int(random.choice(list(of_size), p=shares))]
        loss = -model(train[random.choice(sets, BATCH)]).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 5.0)
        optimizer.step()
        schedule.step()
