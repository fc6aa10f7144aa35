"""Operators the real ATC has no parser for and ONNX defines through operators that CANN has."""

from __future__ import annotations

from asc_devkit.ops.declare import by_definition

by_definition("Attention")
by_definition("BlackmanWindow")
by_definition("CenterCropPad")
by_definition("HammingWindow")
by_definition("HannWindow")
by_definition("NegativeLogLikelihoodLoss")
by_definition("RotaryEmbedding")
