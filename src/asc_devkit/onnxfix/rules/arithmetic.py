"""Reductions without a parser at opset 18, written as the operators they stand for."""

from __future__ import annotations

from asc_devkit.frontends.onnx.upgrade.edit import Edit


def reduce_l1(e: Edit) -> None:
    """Sum of absolute values."""
    attrs = {name: a.value for name, a in e.node.attributes.items()}
    e.rename("ReduceSum", [e.before("Abs", [e.input(0)]), e.input(1)], attrs)


def reduce_l2(e: Edit) -> None:
    """Root of the sum of squares."""
    attrs = {name: a.value for name, a in e.node.attributes.items()}
    e.rename("ReduceSum", [e.before("Mul", [e.input(0), e.input(0)]), e.input(1)], attrs)
    e.after("Sqrt")


RULES = {"ReduceL1": reduce_l1, "ReduceL2": reduce_l2}
