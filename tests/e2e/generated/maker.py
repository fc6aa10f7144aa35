"""Random valid models from one seed: nodes are added one by one, their shapes come from ONNX's own shape inference.

``ModelMaker`` adds integers, booleans, bodies and odd model outputs to the float graphs of ``tests.passes.random_graphs``;
``tensors`` and ``layers`` hold the steps it picks from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from tests.passes.random_graphs import GraphMaker, Shape

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
INPUTS: tuple[Shape, ...] = ((1, 4, 6, 6), (2, 3, 4), (1, 6, 6, 4), (2, 8, 5, 7), (5, 6), (1, 2, 4, 4, 4), (3,), ())


class Unusable(Exception):
    """The step does not fit here, or its result is too large."""


def need(condition: bool) -> None:
    """Give the step up unless ``condition`` holds."""
    if not condition:
        raise Unusable


class ModelMaker(GraphMaker):
    """Adds integers, booleans, bodies and odd model outputs to the float graphs of ``GraphMaker``."""

    def __init__(self, seed: int, steps: dict[str, Step]) -> None:
        super().__init__(seed)
        self.opset = int(self.rng.integers(18, 24))
        self.inputs = [(f"in{i}", self.pick(INPUTS)) for i in range(int(self.rng.integers(1, 4)))]
        self.values = list(self.inputs)
        self.extra: list[onnx.ValueInfoProto] = []
        self.steps = steps
        self.trace: list[str] = []

    def pick(self, things: Any) -> Any:
        return things[int(self.rng.integers(len(things)))]

    def number(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def normal(self, *shape: int) -> str:
        return self.const(self.rng.standard_normal(shape) * 0.5)

    def make(
        self, op_type: str, inputs: list[str], outputs: int = 1, keep: int | None = None, **attrs: Any
    ) -> list[str]:
        """Add a node; its float outputs (the first ``keep``) become values with the shapes ONNX infers."""
        names = [f"t{len(self.nodes)}" + (f"_{i}" if i else "") for i in range(outputs)]
        node = helper.make_node(op_type, inputs, names, name=f"node_{names[0]}" if self.chance(0.8) else "", **attrs)
        for name, (dtype, shape) in self.infer(node).items():
            if dtype == FLOAT and (keep is None or name in names[:keep]):
                self.values.append((name, shape))
        self.nodes.append(node)
        return names

    def infer(self, node: onnx.NodeProto) -> dict[str, tuple[int, Shape]]:
        """(dtype, shape) of the node's outputs."""
        graph = helper.make_graph(
            [*self.nodes, node],
            "one",
            [helper.make_tensor_value_info(n, FLOAT, s) for n, s in self.inputs],
            [helper.make_empty_tensor_value_info(n) for n in node.output if n],
            [numpy_helper.from_array(a, n) for n, a in self.constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        done = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        found = {}
        for value in done.graph.output:
            kind = value.type.tensor_type
            dims = [d.dim_value for d in kind.shape.dim]
            if not kind.HasField("shape") or any(not d.HasField("dim_value") for d in kind.shape.dim):
                raise Unusable(f"{node.op_type}: shape unknown")
            if np.prod(dims, dtype=float) > 3000 or 0 in dims:
                raise Unusable(f"{node.op_type}: {dims}")
            found[value.name] = (kind.elem_type, tuple(dims))
        return found

    def model(self, steps: int) -> onnx.ModelProto:
        kinds = list(self.steps)
        for _ in range(steps):
            back = min(int(self.rng.exponential(2.5)), len(self.values) - 1)
            x, shape = self.values[-1 - back]
            saved = (len(self.nodes), len(self.values))
            kind = self.pick(kinds)
            try:
                self.steps[kind](self, x, shape)
                self.trace.append(kind)
            except (Unusable, shape_inference.InferenceError, ValueError):
                del self.nodes[saved[0] :]
                del self.values[saved[1] :]
        return self.finish()

    def finish(self) -> onnx.ModelProto:
        read = {name for node in self.nodes for name in node.input}
        made = [v for v in self.values if v not in self.inputs]
        ends = [v for v in made if v[0] not in read]
        inner = [v for v in made if v[0] in read]
        if inner and self.chance(0.5):
            ends.append(self.pick(inner))
        outputs = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in ends] + self.extra
        if self.chance(0.1):
            name, shape = self.pick(self.inputs)
            outputs.insert(0, helper.make_tensor_value_info(name, FLOAT, shape))
        floats = {n: a for n, a in self.constants.items() if a.dtype == np.float32}
        if floats and self.chance(0.1):
            name = self.pick(list(floats))
            outputs.append(helper.make_tensor_value_info(name, FLOAT, floats[name].shape))
        self.rng.shuffle(outputs)  # type: ignore[arg-type]
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info(n, FLOAT, s) for n, s in self.inputs],
            outputs,
            [numpy_helper.from_array(a, n) for n, a in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


Step = Callable[[ModelMaker, str, Shape], None]
