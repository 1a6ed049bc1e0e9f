"""The ten models of Table 3, and the four that Tables 6 and 7 add."""

from dataclasses import dataclass
from math import comb, sqrt

import torch
from torch import nn

from janossy import GRU, LSTM, Combinations, JanossyNetwork, JanossyPooling, Sampled, TupleMLP, Tuples
from studies.paper.arithmetic.tasks import Task

EMBEDDING = 100
F_FEATURES = {"mlp": 30, "lstm": 50, "gru": 80}
RHO_FEATURES = 100


@dataclass(frozen=True)
class Model:
    """One row of a table. f is an MLP on k integers, or an LSTM or GRU on all (k None); ρ is linear or an MLP."""

    f: str
    k: int | None
    rho: str
    embedding: int

    @property
    def name(self) -> str:
        is_wide = self.embedding > EMBEDDING // (self.k or 1)
        return f"{self.in_table_3}-{self.embedding}" if is_wide else self.in_table_3

    @property
    def in_table_3(self) -> str:
        """The name in Table 3 of this model, or of the same model with another embedding."""
        return f"{self.f if self.k is None else f'k{self.k}'}-{self.rho}"

    @property
    def is_sampled(self) -> bool:
        return self.k is None

    def num_tuples(self, task: Task) -> int:
        """Returns the number of rows of one example."""
        return 1 if self.k is None else comb(task.num_integers, self.k)

    def num_distinct_tuples(self, task: Task) -> int:
        """Returns the largest number of distinct tuples over all examples, for a k-ary model."""
        assert self.k is not None
        return comb(task.vocabulary + self.k - 1, self.k)

    @property
    def num_trained(self) -> int:
        """The number of trained weights of a k-ary model."""
        assert self.k is not None
        width, rho = F_FEATURES[self.f], RHO_FEATURES
        of_rho = width + 1 if self.rho == "linear" else (width + 1) * rho + rho + 1
        return (self.k * self.embedding + 1) * width + of_rho

    def flops(self, task: Task) -> int:
        """Returns the approximate number of a recurrence's multiplications on one example. Its time is proportional."""
        width = F_FEATURES[self.f]
        gates = {"lstm": 4, "gru": 3}[self.f]
        return task.num_integers * (self.embedding + width) * gates * width

    def build(self, task: Task, reduce: str, embedding_init: str, rho_init: str = "xavier") -> JanossyNetwork:
        """Returns the network, freshly initialised from torch's global generator as in the paper's code.

        f's MLP and ρ have Xavier uniform weights and zero biases. Recurrences have torch's defaults, and the embedding
        is frozen. With ``rho_init`` "xavier/sqrt(T)", weights that read a sum of T rows are multiplied by 1/√T. The
        scale of the outputs then does not grow with T.
        """
        h = nn.Embedding(task.vocabulary, self.embedding)
        if embedding_init == "uniform":
            nn.init.uniform_(h.weight, -0.5, 0.5)
        h.weight.requires_grad_(False)
        width = F_FEATURES[self.f]
        rho = nn.Sequential(
            *([nn.Linear(width, RHO_FEATURES), nn.Tanh()] if self.rho == "mlp" else []),
            nn.Linear(RHO_FEATURES if self.rho == "mlp" else width, 1),
        )
        rho.apply(_xavier)
        if rho_init == "xavier/sqrt(T)":
            with torch.no_grad():
                next(rho.parameters()).div_(sqrt(self.num_tuples(task)))
        if self.k is None:
            f = {"lstm": LSTM, "gru": GRU}[self.f](self.embedding, width)
            pooling = JanossyPooling(f, Sampled(1, scheme="independent"))  # as the paper's; predict draws 20 of them
        else:
            mlp = TupleMLP(self.k, self.embedding, width, activation="tanh").apply(_xavier)
            orderings = Tuples(1) if self.k == 1 else Combinations(self.k)
            pooling = JanossyPooling(mlp, orderings, reduce=reduce)
        return JanossyNetwork(h, pooling, rho)


@torch.no_grad()
def _xavier(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


MODELS = {
    model.name: model
    for model in (
        *(Model("mlp", k, rho, EMBEDDING // k) for rho in ("linear", "mlp") for k in (1, 2, 3)),
        *(Model(f, None, rho, EMBEDDING) for rho in ("linear", "mlp") for f in ("lstm", "gru")),
        *(Model("mlp", k, rho, EMBEDDING) for rho in ("linear", "mlp") for k in (2, 3)),
    )
}
"""All models by name: k1-linear … gru-mlp, and k2-linear-100 … k3-mlp-100."""


def num_trainable_parameters(network: nn.Module) -> int:
    """Returns the count of Table 8, without the frozen embedding."""
    return sum(p.numel() for p in network.parameters() if p.requires_grad)
