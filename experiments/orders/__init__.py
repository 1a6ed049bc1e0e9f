"""Canonical and learned orders: the measurements behind docs/orders.md. Each goes on where it was cut.

python -m experiments.orders.two_coordinates   docs/results/orders/two_coordinates.md
python -m experiments.orders.arithmetic        … arithmetic.md
python -m experiments.orders.neighbourhoods    … neighbourhoods.md; needs planetoid/Cora (--data)
"""
