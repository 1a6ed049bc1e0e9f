"""Audits: how order-sensitive a trained network still is, and how many elements at once a target depends on."""

from janossy.audit.interaction import InteractionOrder, interaction_order
from janossy.audit.sensitivity import Sensitivity, sensitivity

__all__ = ["InteractionOrder", "Sensitivity", "interaction_order", "sensitivity"]
