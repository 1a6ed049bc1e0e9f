"""Small densities of every kind, in float64, with brute force for the laws."""

from itertools import permutations
from math import lgamma

import torch
from torch import Tensor, nn

from janossy import GRU, LSTM, Ragged
from janossy.density import Autoregressive, Bounded, Categories, Head, IidMixture, Normals, SequenceDensity, VonMises


class CausalTransformer(nn.Module):
    def __init__(self, features: int, width: int = 8) -> None:
        super().__init__()
        self.embed = nn.Linear(features, width)
        self.place = nn.Parameter(torch.randn(20, width))
        layer = nn.TransformerEncoderLayer(width, nhead=2, dim_feedforward=8, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        L = x.shape[1]
        mask = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        return self.encoder(self.embed(x) + self.place[:L], mask=mask)


HEADS = {
    "normals": lambda: Normals(1, num_components=2),
    "plane": lambda: Normals(2, num_components=3),
    "bounded": lambda: Bounded([-1.0], [2.0], num_components=2),
    "von Mises": lambda: VonMises(1, num_components=2),
    "categories": lambda: Categories(3),
}
READERS = {
    "gru": lambda d: GRU(d, 5, per_position=True),
    "lstm, two layers": lambda d: LSTM(d, 4, num_layers=2, per_position=True),
    "transformer": CausalTransformer,
}


def sequence_density(
    reader: str, head: str, k: int | None = None, seed: int = 0, strength: float = 3
) -> SequenceDensity:
    """Returns a density that depends on the order by ``strength``. With "iid" as reader it is the mixture."""
    torch.manual_seed(seed)
    made = HEADS[head]()
    if reader == "iid":
        return IidMixture(made, num_components=3).double()
    q = Autoregressive(READERS[reader](made.num_features), made, k=k).double()
    with torch.no_grad():
        q.readout.weight.mul_(strength)
    return q


def elements(head: Head, num: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if head.discrete:
        return torch.randint(head.num_parameters, (num,), generator=generator)
    x = torch.rand(num, *head.event_shape, generator=generator, dtype=torch.float64)
    return 3 * x - 1 if isinstance(head, Bounded) else 4 * x - 2


def some_sets(head: Head, sizes: list[int], seed: int = 0) -> Ragged:
    return Ragged.from_sizes(elements(head, sum(sizes), seed), sizes)


def brute_force(q: SequenceDensity, x: Tensor) -> Tensor:
    """Returns log 1/n! Σ_π Π_t q(x_π(t) | …), with one row per order and one step at a time."""
    orders = x[torch.tensor(list(permutations(range(len(x)))), dtype=torch.long)]
    total = torch.zeros(len(orders), dtype=torch.float64)
    for t in range(len(x)):
        total = total + q.next(orders[:, :t]).log_prob(orders[:, t])
    return total.logsumexp(0) - lgamma(len(x) + 1)
