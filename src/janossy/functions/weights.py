"""The initial weights of modules that contain other modules."""

from torch import nn


def draw_anew(module: nn.Module) -> None:
    """Draws the weights within a module anew, each by the nearest ``reset_parameters`` above it.

    torch's ``nn.MultiheadAttention`` has that method under another name, and modules with one of their own.
    """
    for part in module.children():
        reset = getattr(part, "reset_parameters", None)
        if callable(reset):
            reset()
        else:
            draw_anew(part)
            if isinstance(part, nn.MultiheadAttention):
                part._reset_parameters()
