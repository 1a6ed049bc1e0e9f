"""Finite exchangeable densities: P(n) times the mean over orders of an autoregressive density (docs/density.md)."""

from janossy.density.anomaly import Anomaly, anomaly_scores
from janossy.density.autoregressive import Autoregressive
from janossy.density.completion import Completion, complete
from janossy.density.contract import Head, SequenceDensity
from janossy.density.estimate import Estimate
from janossy.density.exchangeable import ExchangeableDensity
from janossy.density.heads import Bounded, Categories, Normals, VonMises
from janossy.density.iid_mixture import IidMixture
from janossy.density.sizes import CategoricalSizes, NegativeBinomialSizes

__all__ = [
    "Anomaly",
    "Autoregressive",
    "Bounded",
    "CategoricalSizes",
    "Categories",
    "Completion",
    "Estimate",
    "ExchangeableDensity",
    "Head",
    "IidMixture",
    "NegativeBinomialSizes",
    "Normals",
    "SequenceDensity",
    "VonMises",
    "anomaly_scores",
    "complete",
]
