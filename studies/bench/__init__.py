"""The bench: our models beside peers, on real and synthetic data: ``python -m studies bench``."""
