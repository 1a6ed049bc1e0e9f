"""scikit-learn's fitted models as modules with buffers that give the same predictions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from janossy.nn.statistics import LinearScores, TreeEnsemble


def linear_scores(coefficients: np.ndarray, intercepts: np.ndarray) -> LinearScores:
    """Returns the module of coefficients (out, features) and intercepts (out,)."""
    scores = LinearScores(coefficients.shape[1], out_features=len(coefficients))
    scores.weight.copy_(torch.from_numpy(np.ascontiguousarray(coefficients, np.float64)))
    scores.bias.copy_(torch.from_numpy(np.asarray(intercepts, np.float64)))
    return scores


class Trees:
    """A collection of decision trees in the form of ``TreeEnsemble``, built tree by tree."""

    def __init__(self) -> None:
        self.roots: list[int] = []
        self.parts: dict[str, list[np.ndarray]] = {"below": [], "feature": [], "threshold": [], "values": []}
        self.num_nodes = self.num_leaves = 0

    def add(
        self, left: np.ndarray, right: np.ndarray, leaf: np.ndarray, feature: Any, threshold: Any, values: np.ndarray
    ) -> None:
        """Adds a tree given as arrays of nodes. Of ``values`` (nodes, width), only those of leaves count."""
        place = np.empty(len(leaf), np.int64)
        place[~leaf] = self.num_nodes + np.arange((~leaf).sum())
        place[leaf] = ~(self.num_leaves + np.arange(leaf.sum()))
        children = np.stack([place[left[~leaf]], place[right[~leaf]]], axis=1)
        self.roots.append(int(place[0]))
        for name, part in {
            "below": children,
            "feature": feature[~leaf],
            "threshold": _rounded_down(threshold[~leaf]),
            "values": values[leaf],
        }.items():
            self.parts[name].append(part)
        self.num_nodes += len(children)
        self.num_leaves += int(leaf.sum())

    def ensemble(
        self, in_features: int, base: np.ndarray, outputs: Sequence[int] | None = None, *, link: str = "identity"
    ) -> TreeEnsemble:
        """Returns the module. ``outputs``: the one output that each tree adds to; None if trees have all outputs."""
        found = TreeEnsemble(
            in_features,
            out_features=len(base),
            num_trees=len(self.roots),
            num_nodes=self.num_nodes,
            num_leaves=self.num_leaves,
            one_output=outputs is not None,
            link=link,
        )
        found.roots.copy_(torch.tensor(self.roots))
        for name, parts in self.parts.items():
            if parts:
                getattr(found, name).copy_(torch.from_numpy(np.concatenate(parts)))
        if outputs is not None:
            found.outputs.copy_(torch.tensor(outputs))
        found.base.copy_(torch.from_numpy(base))
        return found


def forest(estimators: Sequence[Any], in_features: int, classes: np.ndarray | None, num_outputs: int) -> TreeEnsemble:
    """Returns the mean of scikit-learn's decision trees, or the logarithm of their mean probabilities.

    Args:
        classes: the outputs to which the probabilities belong; None for regression.
    """
    trees = Trees()
    for estimator in estimators:
        tree = estimator.tree_
        values = tree.value[:, :, 0] if classes is None else np.zeros((tree.node_count, num_outputs))
        if classes is not None:
            values[:, classes] = tree.value[:, 0] / tree.value[:, 0].sum(1, keepdims=True)
        leaf = tree.children_left < 0
        trees.add(tree.children_left, tree.children_right, leaf, tree.feature, tree.threshold, values / len(estimators))
    return trees.ensemble(in_features, np.zeros(num_outputs), link="identity" if classes is None else "log")


def boosting(
    models: Sequence[Any],
    in_features: int,
    base: np.ndarray,
    outputs: Sequence[int],
    *,
    num_iterations: int | None = None,
) -> TreeEnsemble:
    """Returns the sum of the trees of scikit-learn's histogram gradient boosting.

    Args:
        models: fitted models: one of all classes, or one per target.
        base: the outputs without trees, (num_outputs,).
        outputs: the output of each of a model's trees in an iteration, or of each model if there are several.
        num_iterations: the number of first iterations to use; None for all.
    """
    trees, of_trees = Trees(), []
    for number, model in enumerate(models):
        of_model = outputs if len(models) == 1 else outputs[number : number + 1]
        for iteration in model._predictors[:num_iterations]:
            for predictor, output in zip(iteration, of_model, strict=True):
                nodes = predictor.nodes
                trees.add(
                    nodes["left"].astype(np.int64),
                    nodes["right"].astype(np.int64),
                    nodes["is_leaf"].astype(bool),
                    nodes["feature_idx"],
                    nodes["num_threshold"],
                    nodes["value"][:, None],
                )
                of_trees.append(output)
    return trees.ensemble(in_features, base, of_trees)


def _rounded_down(thresholds: np.ndarray) -> np.ndarray:
    """Returns the largest float32 not above each threshold, so that every float32 x compares the same with it."""
    with np.errstate(over="ignore"):
        found = thresholds.astype(np.float32)
    found = np.where(found > thresholds, np.nextafter(found, np.float32(-np.inf)), found)
    return found.clip(np.finfo(np.float32).min, np.finfo(np.float32).max)
