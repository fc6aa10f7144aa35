"""Frozen TensorFlow graphs as ONNX models, through tf2onnx (extra ``[tensorflow]``) in a process of its own."""

from asc_devkit.frontends.tensorflow.convert import input_shapes, to_onnx

__all__ = ["input_shapes", "to_onnx"]
