"""R networks of one architecture as one module, and tools to train them together."""

from janossy.stack.stack import Stack
from janossy.stack.training import clip_grad_norm_, scale_steps

__all__ = ["Stack", "clip_grad_norm_", "scale_steps"]
