"""One training loop for every network: Adam, early stopping on the validation micro-F1, the best weights kept."""

import copy
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.utils import subgraph

from studies.paper.graphs.datasets import VertexData
from studies.paper.graphs.train import loss_of, micro_f1


@dataclass(frozen=True)
class Schedule:
    """The schedule of training. An epoch reads each training graph once: one step per graph, in random order."""

    learning_rate: float
    weight_decay: float
    max_epochs: int
    patience: int
    max_seconds: float | None = None
    """The CPU seconds after which no further epoch is begun, with the passes over validation vertices. None for no
    limit."""


@dataclass(frozen=True)
class Piece:
    """A whole graph with the vertices that count, as positions and labels.

    Shapes: x (V, d), edges (2, E) sorted by target, vertices (B,), y (B,) or (B, c).
    """

    x: Tensor
    edges: Tensor
    vertices: Tensor
    y: Tensor


def pieces(data: VertexData, vertices: Tensor) -> list[Piece]:
    """Returns the graphs of these vertices."""
    x = data.x.to_dense()
    edges = torch.stack((data.graph.neighbours, torch.arange(len(x)).repeat_interleave(data.graph.degrees)))
    if data.parts is None:
        return [Piece(x, edges, vertices, data.y[vertices])]
    found = []
    for part in data.parts[vertices].unique():
        inside = (data.parts == part).nonzero()[:, 0]
        own, _ = subgraph(inside, edges, relabel_nodes=True, num_nodes=len(x))
        counted = vertices[data.parts[vertices] == part]
        found.append(Piece(x[inside], own, torch.searchsorted(inside, counted), data.y[counted]))
    return found


def fit(network: nn.Module, train: list[Piece], validation: list[Piece], schedule: Schedule) -> dict:
    """Trains in place, and keeps the weights of the best validation micro-F1; of equal epochs, the smallest loss."""
    optimizer = torch.optim.Adam(
        network.parameters(), lr=schedule.learning_rate, weight_decay=schedule.weight_decay, fused=True
    )
    best, kept, weights = (-1.0, 0.0), 0, copy.deepcopy(network.state_dict())
    start, cpu_start = time.perf_counter(), time.process_time()
    epoch = 0
    for epoch in range(1, schedule.max_epochs + 1):
        network.train()
        for i in torch.randperm(len(train)).tolist():
            piece = train[i]
            loss = loss_of(network(piece.x, piece.edges)[piece.vertices], piece.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        now = _judge(network, validation)
        if now > best:
            best, kept, weights = now, epoch, copy.deepcopy(network.state_dict())
        is_over = schedule.max_seconds is not None and time.process_time() - cpu_start >= schedule.max_seconds
        if is_over or epoch - kept >= schedule.patience:
            break
    network.load_state_dict(weights)
    return {
        "validation": round(best[0], 6),
        "epochs_kept": kept,
        "epochs": epoch,
        "seconds": round(time.perf_counter() - start, 2),
        "cpu_seconds": round(time.process_time() - cpu_start, 2),
    }


@torch.no_grad()
def score(network: nn.Module, split: list[Piece], num_passes: int) -> list[float]:
    """Returns the micro-F1 of the mean probabilities of the first 1, 2, … passes (Remark 2.2)."""
    network.eval()
    y = torch.cat([piece.y for piece in split])
    total, scores = torch.zeros(1), []
    for num in range(1, num_passes + 1):
        total = total + _probabilities(_logits(network, split), y).double()
        scores.append(round(micro_f1(total / num, y), 6))
    return scores


@torch.no_grad()
def _judge(network: nn.Module, split: list[Piece]) -> tuple[float, float]:
    """Returns the micro-F1 of one pass, and minus the loss."""
    network.eval()
    y, logits = torch.cat([piece.y for piece in split]), _logits(network, split)
    return micro_f1(_probabilities(logits, y), y), -loss_of(logits, y).item()


def _logits(network: nn.Module, split: list[Piece]) -> Tensor:
    return torch.cat([network(piece.x, piece.edges)[piece.vertices] for piece in split])


def _probabilities(logits: Tensor, y: Tensor) -> Tensor:
    return logits.softmax(1) if y.dim() == 1 else logits.sigmoid()
