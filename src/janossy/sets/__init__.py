"""Sets of any sizes, stored end to end; their batches in training; numbers on their way from the host to a device."""

from janossy.sets.loading import SimilarSizes, collate
from janossy.sets.ragged import Ragged, check_ragged, sets_of_example

__all__ = ["Ragged", "SimilarSizes", "check_ragged", "collate", "sets_of_example"]
