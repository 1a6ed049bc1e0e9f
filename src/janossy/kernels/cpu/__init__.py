"""Compiled loops for the CPU, by numba: the extra ``janossy[fast]``."""
