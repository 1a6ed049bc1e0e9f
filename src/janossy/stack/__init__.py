"""R networks of one architecture as one module, and what training them together needs."""

from janossy.stack.stack import Stack

__all__ = ["Stack"]
