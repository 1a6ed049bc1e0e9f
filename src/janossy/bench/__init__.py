"""Ours beside peers, on real data and on made ones: ``janossy bench``."""
