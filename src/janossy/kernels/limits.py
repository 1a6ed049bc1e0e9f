"""What the kernels take: known also where numba is not."""

LANES = {"float32": 16, "float64": 8}
"""Numbers in a vector, 512 bits, by dtype. Kernels read and write whole vectors: an array whose last axis is no
multiple of them is read out of bounds."""

CELL_KINDS = {"rnn": 0, "gru": 1, "lstm": 2}
"""The recurrences whose steps are compiled, by the names of the steps, and their codes."""

NUMBERS_KEPT = {"rnn": 0, "gru": 4, "lstm": 4}
"""What a cell keeps of each hidden unit for backward beside its state: the GRU's gates and its new gate's hidden part,
the LSTM's gates."""

MAX_POSITIONS_ON_CUDA = 4
"""The largest k of the kernels for CUDA devices: a thread's registers hold what so many positions keep."""

LEAST_CAPABILITY = (8, 0)
"""The oldest compute capability of a CUDA device that they are compiled and checked for."""
