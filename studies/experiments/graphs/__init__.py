"""Graphs beyond the paper: the best micro-F1 of a Janossy model, beside torch_geometric's own convolutions.

    python -m studies.experiments.graphs.best           docs/results/graphs/best.json and best.md
    python -m studies.experiments.graphs.interactions   … interactions.json and interactions.md

They need the extra ``dev`` and a data folder (--data) with planetoid/Cora, planetoid/PubMed and ppi/ppi.npz.
"""
