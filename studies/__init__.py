"""The studies of janossy, which are not installed: the paper's studies, the bench with peers, and our experiments.

Their results do not depend on compile times.
"""

import os

os.environ.setdefault("JANOSSY_KERNELS", "wait")
