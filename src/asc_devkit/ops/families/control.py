"""Control flow and sequences. The branches of ``If`` are converted by ``ops.convert`` itself."""

from __future__ import annotations

from asc_devkit.ops.declare import AICPU, FREE, Attr, rename

rename(
    "If",
    inputs="cond input*",
    outputs="output*",
    attrs=[Attr("then_branch", "graph"), Attr("else_branch", "graph")],
    **FREE,
)

_SEQUENCE = {**AICPU, "exact": True}
rename("SequenceAt", inputs="handle index", **_SEQUENCE)
rename("SequenceConstruct", inputs="inputs*", outputs="handle", **_SEQUENCE)
rename("SequenceEmpty", inputs="", outputs="handle", attrs=[Attr("dtype", "dtype", 1)], **_SEQUENCE)
rename("SequenceErase", inputs="handle index", outputs="output_handle", **_SEQUENCE)
rename("SequenceInsert", inputs="handle value index", outputs="output_handle", **_SEQUENCE)
rename("SequenceLength", inputs="handle", outputs="length", **_SEQUENCE)
rename("SplitToSequence", inputs="x split", outputs="handle",
       attrs=[Attr("axis", "int", 0), Attr("keep_dims", "bool", 1, onnx="keepdims")], **_SEQUENCE)  # fmt: skip
rename("ConcatFromSequence", inputs="handle",
       attrs=[Attr("axis", "int"), Attr("new_axis", "bool", 0)], **_SEQUENCE)  # fmt: skip
