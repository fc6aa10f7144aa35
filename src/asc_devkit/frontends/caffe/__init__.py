"""Caffe nets (prototxt and caffemodel) as ONNX models. No Caffe library is needed: both files are read by own parsers."""

from asc_devkit.frontends.caffe.load import input_shapes, to_onnx

__all__ = ["input_shapes", "to_onnx"]
