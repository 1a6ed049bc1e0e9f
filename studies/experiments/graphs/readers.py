"""Networks of a vertex and a sample of its neighbours, of a given order in these or of any, and their training."""

import copy
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from janossy import GRU, AllPermutations, JanossyPooling, Ragged, Sampled, TupleMLP, Tuples
from studies.experiments.graphs.neighbour_tasks import Task
from studies.paper.graphs.train import loss_of

NUM_READ = 8
"""The number of neighbours that are read at once, sampled anew each time. Their pairs and triples are cheap."""

EVALUATION_BATCH = 4096
MAX_VALIDATION = 2000

BOUNDED = ("0", "1", "2", "3")
FLEXIBLE = ("GRU", "MLP of mean")
MODELS = (*BOUNDED, *FLEXIBLE)


@dataclass(frozen=True)
class Schedule:
    """The steps of training. The step with the smallest validation cross-entropy is kept."""

    hidden_features: int
    dropout: float
    learning_rate: float
    weight_decay: float
    batch: int
    num_steps: int
    look_every: int


class Reader(nn.Module):
    """The logits A o + f̄(e_1, …, e_n) of a vertex and its neighbours, with o = relu(B x), e_u = relu(C z_u + D o).

    ``model`` chooses f̄. The last two are of any order.

    - "0": nothing
    - "1", "2", "3": the mean of an MLP over all tuples of so many neighbours, which has that order in them
    - "GRU": a linear map of the mean last state over orders
    - "MLP of mean": relu and a linear map of a mean as in "1"

    Shapes: own (B, d), neighbours B sets of values (N, d') -> (B, num_classes).
    """

    def __init__(self, model: str, num_own: int, num_neighbour: int, num_classes: int, schedule: Schedule) -> None:
        super().__init__()
        h = schedule.hidden_features
        self.own, self.neighbour = nn.Linear(num_own, h), nn.Linear(num_neighbour, h)
        self.beside, self.rho = nn.Linear(h, h, bias=False), nn.Linear(h, num_classes)
        self.dropout = nn.Dropout(schedule.dropout)
        self.pool: JanossyPooling | None = None
        self.head: nn.Module = nn.Identity()
        if model == "GRU":
            self.pool, self.head = JanossyPooling(GRU(h, h), Sampled(num_permutations=1)), nn.Linear(h, num_classes)
        elif model == "MLP of mean":
            self.pool = JanossyPooling(TupleMLP(1, h, h, out_features=h, activation="relu"), Tuples(1))
            self.head = nn.Sequential(nn.ReLU(), nn.Linear(h, num_classes))
        elif model != "0":
            k = int(model)
            self.pool = JanossyPooling(TupleMLP(k, h, h, out_features=num_classes, activation="relu"), Tuples(k))

    def forward(self, own: Tensor, neighbours: Ragged) -> Tensor:
        return self.read(own, neighbours.with_values(self.neighbour(neighbours.values)))

    def read(self, own: Tensor, projected: Ragged, exact: bool = False) -> Tensor:
        """Returns the logits from neighbours C z_u. ``exact`` averages the GRU over all orders."""
        own = self.dropout(self.own(own).relu())
        logits = self.rho(own)
        if self.pool is None:
            return logits
        values, owners = projected.to_index()
        e = projected.with_values(self.dropout((values + self.beside(own)[owners]).relu()))
        orders = AllPermutations() if exact and isinstance(self.pool.f, GRU) else None
        return logits + self.head(self.pool(e, orders))


def fit(network: Reader, task: Task, schedule: Schedule) -> dict:
    """Trains in place, and keeps the best weights."""
    data = task.data
    optimizer = torch.optim.Adam(
        network.parameters(), lr=schedule.learning_rate, weight_decay=schedule.weight_decay, fused=True
    )
    validation = data.validation[torch.randperm(len(data.validation))[:MAX_VALIDATION]]
    best, kept, weights = float("inf"), 0, copy.deepcopy(network.state_dict())
    start = time.perf_counter()
    batches: list[Tensor] = []
    for step in range(1, schedule.num_steps + 1):
        network.train()
        batches = batches or list(data.train[torch.randperm(len(data.train))].split(schedule.batch))
        batch = batches.pop()
        loss = loss_of(_logits(network, task, batch), data.y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % schedule.look_every == 0:
            now = loss_of(mean_logits(network, task, validation, 1), data.y[validation]).item()
            if now < best:
                best, kept, weights = now, step, copy.deepcopy(network.state_dict())
    network.load_state_dict(weights)
    return {"validation": round(best, 6), "kept": kept, "seconds": round(time.perf_counter() - start, 2)}


@torch.no_grad()
def mean_logits(network: Reader, task: Task, vertices: Tensor, num_passes: int) -> Tensor:
    """Returns the mean logits over samples of neighbours (and orders). Their order in the neighbours is unchanged.

    Shapes: vertices (B,) -> (B, num_classes).
    """
    network.eval()
    passes = [
        torch.cat([_logits(network, task, part) for part in vertices.split(EVALUATION_BATCH)])
        for _ in range(num_passes)
    ]
    return torch.stack(passes).mean(0)


def _logits(network: Reader, task: Task, vertices: Tensor) -> Tensor:
    drawn = task.data.graph.sample(vertices, NUM_READ)
    return network(task.own[vertices], drawn.with_values(task.neighbour[drawn.values]))
