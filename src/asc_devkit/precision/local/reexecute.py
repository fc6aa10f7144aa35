"""Executes every operator of an ONNX model on given values of its inputs, all in one pass of ONNX Runtime.

The model is rewired: each tensor that is known becomes an input of the graph, and every operator that makes a known
tensor reads known tensors only. Operators between two known tensors (a fused group, say) are executed together. What
cannot be reached from known tensors is left out and named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper

Array = np.ndarray[Any, Any]
CHUNK_BYTES: Final = 256 << 20
MAX_BETWEEN: Final = 64  # operators executed together between known tensors


@dataclass(frozen=True)
class Reexecution:
    """The result for the tensor ``output`` made by ``nodes`` (last one named ``node``) from the known ``inputs``."""

    output: str
    node: str
    op_type: str
    inputs: tuple[str, ...]
    nodes: int
    expected: Array


@dataclass
class Plan:
    """Which nodes compute a known tensor from known tensors."""

    output: str
    nodes: list[int]
    inputs: list[str]


@dataclass
class Wiring:
    """The model as tables: who makes a tensor, what is constant, and the element type of each tensor."""

    model: onnx.ModelProto
    maker: dict[str, int] = field(default_factory=dict)
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, model: onnx.ModelProto) -> Wiring:
        """Tables of ``model``; element types come from shape inference."""
        wired = cls(model)
        graph = model.graph
        for place, node in enumerate(graph.node):
            for name in node.output:
                if name:
                    wired.maker[name] = place
        wired.constants = {tensor.name: tensor for tensor in graph.initializer}
        try:
            shown = onnx.shape_inference.infer_shapes(model).graph
        except Exception:  # the inference gives up in many ways; what it would tell is optional
            shown = graph
        for value in (*shown.input, *shown.value_info, *shown.output):
            if value.type.HasField("tensor_type"):
                wired.types[value.name] = value.type.tensor_type.elem_type
        return wired

    def plan(self, output: str, known: Mapping[str, Any]) -> Plan | None:
        """How to compute ``output`` from known tensors, None when it cannot be."""
        nodes: list[int] = []
        inputs: dict[str, None] = {}
        waiting = [self.maker[output]] if output in self.maker else []
        seen = set(waiting)
        if not waiting:
            return None
        while waiting:
            place = waiting.pop()
            nodes.append(place)
            node = self.model.graph.node[place]
            if len(nodes) > MAX_BETWEEN or any(a.type in _GRAPHS for a in node.attribute):
                return None
            for name in node.input:
                if not name or name in self.constants:
                    continue
                if name in known:
                    inputs[name] = None
                elif name in self.maker:
                    if self.maker[name] not in seen:
                        seen.add(self.maker[name])
                        waiting.append(self.maker[name])
                else:
                    return None
        return Plan(output, sorted(nodes), list(inputs))


_GRAPHS: Final = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def reexecute(model: onnx.ModelProto, known: Mapping[str, Array], outputs: Sequence[str]) -> Iterator[Reexecution]:
    """The value each of ``outputs`` should have, given the values ``known`` of tensors of ``model`` (by name).

    ``known`` is read when needed, so it may load lazily. Outputs that no operator makes from known tensors are left out.
    """
    wired = Wiring.of(model)
    plans = [plan for name in outputs if (plan := wired.plan(name, known)) is not None]
    for group in _chunks(plans, known):
        yield from _run(wired, group, known)


def _chunks(plans: Sequence[Plan], known: Mapping[str, Array]) -> Iterator[list[Plan]]:
    group: list[Plan] = []
    size = 0
    for plan in plans:
        group.append(plan)
        size += sum(known[name].nbytes for name in plan.inputs) + known[plan.output].nbytes
        if size > CHUNK_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _run(wired: Wiring, group: list[Plan], known: Mapping[str, Array]) -> Iterator[Reexecution]:
    try:
        names, feed, session = _session(wired, group, known)
        values = session.run(names, feed)
    except _refusals():
        if len(group) == 1:
            return
        middle = len(group) // 2
        yield from _run(wired, group[:middle], known)
        yield from _run(wired, group[middle:], known)
        return
    for plan, value in zip(group, values, strict=True):
        node = wired.model.graph.node[wired.maker[plan.output]]
        yield Reexecution(
            plan.output, node.name or plan.output, node.op_type, tuple(plan.inputs), len(plan.nodes), np.asarray(value)
        )


def _refusals() -> tuple[type[Exception], ...]:
    """What ONNX Runtime raises for a graph or data it does not take."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    names = ("Fail", "InvalidArgument", "InvalidGraph", "NotImplemented", "RuntimeException", "InvalidProtobuf")
    return (*(getattr(state, name) for name in names), ValueError, TypeError)


def _session(wired: Wiring, group: list[Plan], known: Mapping[str, Array]) -> tuple[list[str], dict[str, Array], Any]:
    import onnxruntime as ort

    nodes: list[onnx.NodeProto] = []
    constants: dict[str, onnx.TensorProto] = {}
    feed: dict[str, Array] = {}
    inputs: dict[str, onnx.ValueInfoProto] = {}
    outputs: list[str] = []
    for number, plan in enumerate(group):
        made = {name for place in plan.nodes for name in wired.model.graph.node[place].output if name}
        for place in plan.nodes:
            node = onnx.NodeProto()
            node.CopyFrom(wired.model.graph.node[place])
            node.name = f"{number}:{place}"
            for slot, name in enumerate(node.input):
                if name in wired.constants:
                    constants[name] = wired.constants[name]
                elif name in known and name in plan.inputs:
                    node.input[slot] = f"in:{name}"
                    if name not in feed:
                        feed[name] = _fitting(known[name], wired.types.get(name, TensorProto.FLOAT))
                        kind = helper.np_dtype_to_tensor_dtype(feed[name].dtype)
                        inputs[name] = helper.make_tensor_value_info(f"in:{name}", kind, feed[name].shape)
                elif name in made:
                    node.input[slot] = f"{number}:{name}"
            for slot, name in enumerate(node.output):
                if name:
                    node.output[slot] = f"{number}:{name}"
            nodes.append(node)
        outputs.append(f"{number}:{plan.output}")
    graph = helper.make_graph(
        nodes,
        "again",
        list(inputs.values()),
        [onnx.ValueInfoProto(name=name) for name in outputs],
        list(constants.values()),
    )
    model = helper.make_model(
        graph, opset_imports=wired.model.opset_import, ir_version=min(wired.model.ir_version or 8, 10)
    )
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return outputs, {f"in:{name}": value for name, value in feed.items()}, session


def _fitting(array: Array, kind: int) -> Array:
    """``array`` in the element type the model has for it."""
    wanted = helper.tensor_dtype_to_np_dtype(kind) if kind else np.dtype(np.float32)
    if array.dtype.name == "bfloat16" or array.dtype != wanted:
        array = array.astype(np.float32).astype(wanted) if array.dtype.name == "bfloat16" else array.astype(wanted)
    return np.ascontiguousarray(array)
