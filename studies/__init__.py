"""The studies of janossy, which are not installed: the paper's, the bench beside peers, and experiments of our own.

Their results do not depend on how long a compiler takes.
"""

import os

os.environ.setdefault("JANOSSY_KERNELS", "wait")
