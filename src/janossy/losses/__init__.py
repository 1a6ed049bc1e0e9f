"""Losses: over permutations (π-SGD), with the schedule that its convergence asks for, and over learned orders."""

from janossy.losses.order_loss import OrderLoss
from janossy.losses.permutation_loss import Estimand, PermutationLoss
from janossy.losses.schedule import RobbinsMonro

__all__ = ["Estimand", "OrderLoss", "PermutationLoss", "RobbinsMonro"]
