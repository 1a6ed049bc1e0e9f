"""PaddedNetwork and export_onnx: networks of padded sets for torch.export, ONNX and torch.func.vmap."""

from janossy.export.onnx import export_onnx
from janossy.export.padded import PaddedNetwork

__all__ = ["PaddedNetwork", "export_onnx"]
