"""Canonical and learned orders: the measurements behind docs/orders.md. Each goes on where it was cut.

python -m studies.experiments.orders.two_coordinates   docs/results/orders/two_coordinates.md
python -m studies.experiments.orders.arithmetic        … arithmetic.md
python -m studies.experiments.orders.neighbourhoods    … neighbourhoods.md; needs planetoid/Cora (--data)
"""
