"""ONNX files into the canonical IR. The entry is ``load``."""

from asc_devkit.frontends.onnx.load import Loaded, Original, load

__all__ = ["Loaded", "Original", "load"]
