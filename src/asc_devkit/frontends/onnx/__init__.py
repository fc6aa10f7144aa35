"""ONNX files into the canonical IR. The entry is ``load``; ``original_nodes`` lists a file's nodes as they stand."""

from asc_devkit.frontends.onnx.load import Loaded, Original, load, original_nodes

__all__ = ["Loaded", "Original", "load", "original_nodes"]
