"""Measurements of speed, for which kernels are compiled before."""

import os

os.environ.setdefault("JANOSSY_KERNELS", "wait")
