"""The weights of modules that are made of others."""

from torch import nn


def draw_anew(module: nn.Module) -> None:
    """Draws the weights within a module anew, each by the ``reset_parameters`` that is nearest above it."""
    for part in module.children():
        reset = getattr(part, "reset_parameters", None)
        if callable(reset):
            reset()
        else:
            draw_anew(part)
