"""Prediction: means over permutations with error bars, variance reduction, and analyses of a trained network."""

from janossy.inference.control import ControlVariate, fit_control_variate
from janossy.inference.interaction import InteractionOrder, interaction_order
from janossy.inference.passes import predict_passes
from janossy.inference.predict import predict
from janossy.inference.prediction import LINKS, Link, Prediction, named_link
from janossy.inference.sensitivity import Sensitivity, sensitivity
from janossy.nn.modes import evaluating

__all__ = [
    "LINKS",
    "ControlVariate",
    "InteractionOrder",
    "Link",
    "Prediction",
    "Sensitivity",
    "evaluating",
    "fit_control_variate",
    "interaction_order",
    "named_link",
    "predict",
    "predict_passes",
    "sensitivity",
]
