"""Losses over permutations (π-SGD), with a schedule for convergence; over learned orders; and between sets."""

from janossy.losses.order_loss import OrderLoss
from janossy.losses.permutation_loss import Estimand, PermutationLoss
from janossy.losses.schedule import RobbinsMonro
from janossy.losses.set_distances import assignment_distance, chamfer_distance, energy_distance

__all__ = [
    "Estimand",
    "OrderLoss",
    "PermutationLoss",
    "RobbinsMonro",
    "assignment_distance",
    "chamfer_distance",
    "energy_distance",
]
