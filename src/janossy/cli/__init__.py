"""The command line."""

from janossy.cli.door import main

__all__ = ["main"]
