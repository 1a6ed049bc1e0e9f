"""How many numbers a vector of the kernels holds. Its own file, as it must be known where numba is not."""

LANES = {"float32": 16, "float64": 8}
"""By dtype. Kernels read and write whole vectors: an array whose last axis is shorter is read out of bounds."""
