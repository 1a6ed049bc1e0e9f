"""Ours beside peers, on real data and on made ones: ``python -m studies bench``."""
