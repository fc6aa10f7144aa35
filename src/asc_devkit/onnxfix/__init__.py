"""``fix``: an ONNX model rewritten into one the real ATC has parsers for, and the proof that both compute the same."""

from asc_devkit.onnxfix.pipeline import FixResult, fix

__all__ = ["FixResult", "fix"]
