"""Sets of any sizes, stored end to end; batches for training; transfer of numbers from the host to a device."""

from janossy.sets.loading import SimilarSizes, collate
from janossy.sets.ragged import Ragged, check_ragged, sets_of_example

__all__ = ["Ragged", "SimilarSizes", "check_ragged", "collate", "sets_of_example"]
