"""Predicting: means over permutations, how sure they are, and ways to less variance."""

from janossy.inference.control import ControlVariate, fit_control_variate
from janossy.inference.links import LINKS, Link, named_link
from janossy.inference.passes import predict_passes
from janossy.inference.predict import predict
from janossy.inference.prediction import Prediction
from janossy.modes import evaluating

__all__ = [
    "LINKS",
    "ControlVariate",
    "Link",
    "Prediction",
    "evaluating",
    "fit_control_variate",
    "named_link",
    "predict",
    "predict_passes",
]
