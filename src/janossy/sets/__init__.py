"""Sets of any sizes, stored end to end, and numbers on their way from the host to a device."""

from janossy.sets.ragged import Ragged, check_ragged, sets_of_example

__all__ = ["Ragged", "check_ragged", "sets_of_example"]
