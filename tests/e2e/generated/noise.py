"""What relative noise on every float value does to a model's outputs: the distance that rounding alone explains."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference


def shaken(model: onnx.ModelProto, size: float, rng: np.random.Generator) -> onnx.ModelProto:
    """``model`` with every float input and every float result multiplied by 1 + ``size`` * normal noise."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    inferred = shape_inference.infer_shapes(model, data_prop=True).graph
    types = {v.name: v.type.tensor_type for v in (*inferred.value_info, *inferred.output, *inferred.input)}
    nodes: list[onnx.NodeProto] = []
    renamed: dict[str, str] = {}

    def noise(source: str, target: str) -> None:
        dims = types[target.removesuffix("__shaken")].shape.dim
        shape = [d.dim_value for d in dims] if all(d.HasField("dim_value") for d in dims) else []
        factor = (1 + size * rng.standard_normal(shape)).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(factor, f"{target}__noise"))
        nodes.append(helper.make_node("Mul", [source, f"{target}__noise"], [target]))

    for value in model.graph.input:
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            renamed[value.name] = f"{value.name}__shaken"
            noise(value.name, renamed[value.name])
    for node in made.graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for index, name in enumerate(copy.input):
            copy.input[index] = renamed.get(name, name)
        noisy = [n for n in copy.output if n in types and types[n].elem_type == onnx.TensorProto.FLOAT]
        for index, name in enumerate(copy.output):
            if name in noisy:
                copy.output[index] = f"{name}__raw"
        nodes.append(copy)
        for name in noisy:
            noise(f"{name}__raw", name)
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def with_all_values(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with every float value of its main graph as an output too."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    have = {v.name for v in (*model.graph.output, *model.graph.input)}
    for value in shape_inference.infer_shapes(model, data_prop=True).graph.value_info:
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT and value.name not in have:
            made.graph.output.append(helper.make_empty_tensor_value_info(value.name))
    return made
