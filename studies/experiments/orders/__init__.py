"""Canonical and learned orders: the measurements of docs/orders.md. Interrupted runs resume.

python -m studies.experiments.orders.two_coordinates   docs/results/orders/two_coordinates.md
python -m studies.experiments.orders.arithmetic        … arithmetic.md
python -m studies.experiments.orders.neighbourhoods    … neighbourhoods.md; needs planetoid/Cora (--data)
"""
