"""The original of a model with custom operators: ONNX Runtime between them, their plugins' functions at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort

from asc_devkit.frontends.onnx import load
from asc_devkit.npu import reference
from asc_devkit.npu.split import split
from asc_devkit.ops.infer import infer
from asc_devkit.ops.plugins import entries

Array = np.ndarray[Any, Any]
_QUIET: Final = 4


def has_custom(nodes: Sequence[onnx.NodeProto]) -> bool:
    """Whether a plugin declared one of the operators, bodies included."""
    for node in nodes:
        if entries.custom_onnx(node.domain, node.op_type) is not None:
            return True
        if any(has_custom(a.g.node) for a in node.attribute if a.HasField("g")):
            return True
    return False


def tensors(path: Path) -> set[str]:
    """Names of the tensors that ``PluggedSession`` can return."""
    return {v.name or "" for node in load(path, host_ops=True).model.graph for v in node.outputs}


class PluggedSession:
    """Like an ONNX Runtime session of the model at ``path`` with ``extra`` tensors as outputs.

    The first run makes it: shapes are those of its inputs. The model is executed in canonical form, unoptimised by
    the toolkit, cut at its custom operators.
    """

    def __init__(self, path: Path, extra: Sequence[str], threads: int) -> None:
        self.path, self.extra, self.threads = path, extra, threads
        self.steps: list[tuple[Any, list[str], list[str]]] = []

    def run(self, names: Sequence[str], feeds: Mapping[str, Array]) -> list[Array]:
        """Values of ``names``."""
        if not self.steps:
            self._build({name: array.shape for name, array in feeds.items()})
        known = dict(feeds)
        for session, reads, makes in self.steps:
            known.update(zip(makes, session.run(makes, {n: known[n] for n in reads}), strict=True))
        return [known[name] for name in names]

    def _build(self, shapes: Mapping[str, Sequence[int]]) -> None:
        model = load(self.path, input_shapes=shapes, host_ops=True, allow_empty=True).model
        infer(model)
        graph = model.graph
        have = {v.name for v in graph.outputs}
        values = {v.name: v for node in graph for v in node.outputs}
        graph.outputs.extend(values[name] for name in self.extra if name in values and name not in have)
        for piece in split(model, entries.standardise(model)):
            proto = ir.to_proto(piece.model)
            reads, makes = [v.name for v in proto.graph.input], [v.name for v in proto.graph.output]
            if piece.foreign:
                self.steps.append((reference.evaluator(proto), reads, makes))
                continue
            options = ort.SessionOptions()
            options.intra_op_num_threads, options.log_severity_level = self.threads, _QUIET
            made = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
            self.steps.append((made, reads, makes))
