"""Operators executed again without their model: what a name and the golden tensors tell is enough for the common ones.

A dump with inputs and outputs names the operator (``Add``, ``torch.matmul``, ``conv2d``) but often not its
attributes. The table lists forms to try; the one that makes the golden output from the golden inputs is the operator,
and is then asked what the target's output should be, given the target's inputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from onnx import helper

Array = np.ndarray[Any, Any]
FITS: Final = 4e-3  # relative distance at which a form is taken for the operator (golden may be float16)
MAX_FORMS: Final = 48
OPSET: Final = 20
# GE and torch spellings -> ONNX operator; the others are spelled alike
NAMES: Final = {
    "realdiv": "Div",
    "div": "Div",
    "true_divide": "Div",
    "truediv": "Div",
    "sub": "Sub",
    "rsub": "Sub",
    "add": "Add",
    "addv2": "Add",
    "iadd": "Add",
    "radd": "Add",
    "biasadd": "Add",
    "mul": "Mul",
    "imul": "Mul",
    "muls": "Mul",
    "maximum": "Max",
    "max": "Max",
    "minimum": "Min",
    "min": "Min",
    "pow": "Pow",
    "neg": "Neg",
    "abs": "Abs",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "rsqrt": "Rsqrt",
    "reciprocal": "Reciprocal",
    "square": "Square",
    "erf": "Erf",
    "relu": "Relu",
    "relu_": "Relu",
    "leakyrelu": "LeakyRelu",
    "leaky_relu": "LeakyRelu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "gelu": "Gelu",
    "softplus": "Softplus",
    "silu": "Swish",
    "swish": "Swish",
    "elu": "Elu",
    "hardswish": "HardSwish",
    "hardsigmoid": "HardSigmoid",
    "softmax": "Softmax",
    "softmaxv2": "Softmax",
    "logsoftmax": "LogSoftmax",
    "log_softmax": "LogSoftmax",
    "logsoftmaxv2": "LogSoftmax",
    "sin": "Sin",
    "cos": "Cos",
    "matmul": "MatMul",
    "matmulv2": "MatMul",
    "batchmatmul": "MatMul",
    "batchmatmulv2": "MatMul",
    "bmm": "MatMul",
    "mm": "MatMul",
    "matmulv3": "MatMul",
    "linear": "Linear",
    "gemm": "Linear",
    "addmm": "Addmm",
    "conv2d": "Conv",
    "conv": "Conv",
    "conv1d": "Conv",
    "depthwiseconv2d": "Conv",
    "layernorm": "LayerNormalization",
    "layer_norm": "LayerNormalization",
    "layernormv3": "LayerNormalization",
    "layernormalization": "LayerNormalization",
    "transpose": "Transpose",
    "transposed": "Transpose",
    "permute": "Transpose",
    "t": "Transpose",
    "reshape": "Copy",
    "view": "Copy",
    "flatten": "Copy",
    "contiguous": "Copy",
    "clone": "Copy",
    "identity": "Copy",
    "squeeze": "Copy",
    "unsqueeze": "Copy",
    "cast": "Copy",
    "to": "Copy",
    "concat": "Concat",
    "concatd": "Concat",
    "cat": "Concat",
    "concatv2": "Concat",
    "reducemean": "ReduceMean",
    "mean": "ReduceMean",
    "reducesum": "ReduceSum",
    "sum": "ReduceSum",
    "reducesumd": "ReduceSum",
    "reducemeand": "ReduceMean",
    "reducemax": "ReduceMax",
    "reducemaxd": "ReduceMax",
    "maxpool": "MaxPool",
    "max_pool2d": "MaxPool",
    "where": "Where",
    "select": "Where",
    "clip": "Clip",
}
_SHORT: Final[dict[str, tuple[tuple[str, dict[str, Any]], ...]]] = {
    "Rsqrt": (("Sqrt", {}), ("Reciprocal", {})),
    "Square": (("Mul", {}),),
    "Swish": (("Sigmoid", {}), ("Mul", {})),
}


@dataclass(frozen=True)
class Form:
    """One way the operator may work: an ONNX operator, its attributes, and how the inputs are arranged."""

    op: str
    attributes: dict[str, Any] = field(default_factory=dict)
    order: tuple[int, ...] = ()
    turned: tuple[int, ...] = ()  # inputs whose last two axes are exchanged


def forms(op_type: str, inputs: Sequence[Array], output: Array) -> Iterator[Form]:
    """Forms that operator ``op_type`` may have for these shapes, likely ones first."""
    op = NAMES.get(op_type.lower().strip("_"), NAMES.get(op_type.lower().rsplit(".", 1)[-1].strip("_"), ""))
    if not op or not inputs:
        return
    rank = inputs[0].ndim
    if op in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min") and len(inputs) == 2:
        yield Form(op)
        if op in ("Sub", "Div", "Pow"):
            yield Form(op, order=(1, 0))
    elif op in ("LeakyRelu", "Elu"):
        negative = (
            (inputs[0] < 0) & np.isfinite(output.reshape(inputs[0].shape)) if output.size == inputs[0].size else None
        )
        slope = 0.01
        if op == "LeakyRelu" and negative is not None and negative.any():
            slope = float(np.median(output.reshape(inputs[0].shape)[negative] / inputs[0][negative]))
        yield Form(op, {"alpha": slope if op == "LeakyRelu" else 1.0})
    elif op == "Gelu":
        yield Form(op, {"approximate": "none"})
        yield Form(op, {"approximate": "tanh"})
    elif op in ("Softmax", "LogSoftmax"):
        for axis in range(rank - 1, -1, -1):
            yield Form(op, {"axis": axis})
    elif op == "Concat":
        for axis in range(rank):
            yield Form(op, {"axis": axis})
    elif op == "Transpose":
        for axes in itertools.permutations(range(rank)) if rank <= 5 else ():
            if tuple(inputs[0].shape[a] for a in axes) == output.shape:
                yield Form(op, {"perm": axes})
    elif op in ("MatMul", "Linear", "Addmm"):
        yield from _products(op, inputs)
    elif op == "Conv" and len(inputs) >= 2 and rank >= 3:
        yield from _convolutions(inputs, output)
    elif op == "LayerNormalization":
        for axis, eps in itertools.product((-1, -2, -3), (1e-5, 1e-6, 1e-12, 1e-3)):
            if -axis <= rank:
                yield Form(op, {"axis": axis, "epsilon": eps})
    elif op in ("ReduceMean", "ReduceSum", "ReduceMax"):
        for count in range(rank, 0, -1):
            for axes in itertools.combinations(range(rank), count):
                yield Form(op, {"axes": axes})
    elif op == "MaxPool" and rank == 4 and output.ndim == 4:
        for kernel, stride, pad in itertools.product((2, 3), (1, 2), (0, 1)):
            yield Form(op, {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4})
    else:
        yield Form(op)


def _products(op: str, inputs: Sequence[Array]) -> Iterator[Form]:
    if op == "Addmm" and len(inputs) == 3:
        yield Form("MatMulAdd", order=(1, 2, 0))
        return
    kind = "MatMulAdd" if len(inputs) >= 3 else "MatMul"
    second = 1
    for turned in ((second,), (), (0,), (0, second)) if op == "Linear" else ((), (second,), (0,), (0, second)):
        yield Form(kind, turned=turned)


def _convolutions(inputs: Sequence[Array], output: Array) -> Iterator[Form]:
    x, w = inputs[0], inputs[1]
    spatial = x.ndim - 2
    if w.ndim != x.ndim or output.ndim != x.ndim or not w.shape[1]:
        return
    group = x.shape[1] // w.shape[1]
    for stride, dilation, pad in itertools.product((1, 2, 4), (1, 2), range(5)):
        sizes = [(x.shape[2 + i] + 2 * pad - dilation * (w.shape[2 + i] - 1) - 1) // stride + 1 for i in range(spatial)]
        if tuple(sizes) == output.shape[2:]:
            yield Form(
                "Conv",
                {
                    "strides": [stride] * spatial,
                    "dilations": [dilation] * spatial,
                    "pads": [pad] * (2 * spatial),
                    "group": max(group, 1),
                },
            )


def execute(form: Form, inputs: Sequence[Array]) -> Array | None:
    """The output of the operator in this form (float32), None when it does not fit the inputs."""
    values = [np.ascontiguousarray(v, np.float32) if v.dtype.kind not in "biu" else v for v in inputs]
    if form.order:
        values = [values[i] for i in form.order if i < len(values)]
    values = [np.swapaxes(v, -1, -2) if i in form.turned and v.ndim >= 2 else v for i, v in enumerate(values)]
    try:
        with np.errstate(all="ignore"):
            return _numpy(form, values)
    except (ValueError, IndexError, TypeError):
        return None


def _numpy(form: Form, values: list[Array]) -> Array | None:
    """Simple operators by numpy (no session to build), the others by ONNX Runtime."""
    if form.op == "Copy":
        return values[0]
    if form.op == "MatMul":
        return np.asarray(np.matmul(values[0], values[1]))
    if form.op == "MatMulAdd":
        return np.asarray(np.matmul(values[0], values[1]) + values[2])
    simple = {
        "Add": np.add,
        "Sub": np.subtract,
        "Mul": np.multiply,
        "Div": np.divide,
        "Max": np.maximum,
        "Min": np.minimum,
    }
    if form.op in simple and len(values) == 2:
        return np.asarray(simple[form.op](values[0], values[1]))
    if form.op in ("ReduceMean", "ReduceSum", "ReduceMax"):
        reductions: dict[str, Any] = {"ReduceMean": np.mean, "ReduceSum": np.sum, "ReduceMax": np.max}
        return np.asarray(reductions[form.op](values[0], axis=form.attributes["axes"]))
    if form.op == "Transpose":
        return np.ascontiguousarray(values[0].transpose(form.attributes["perm"]))
    if form.op == "Concat":
        return np.concatenate(values, axis=form.attributes["axis"])
    return _runtime(form, values)


def _runtime(form: Form, values: list[Array]) -> Array | None:
    import onnxruntime as ort

    names = [f"x{i}" for i in range(len(values))]
    shown = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in zip(names, values, strict=True)
    ]
    nodes = []
    steps = _SHORT.get(form.op, ((form.op, form.attributes),))
    current = names
    for number, (op, attributes) in enumerate(steps):
        if op == "Mul" and len(current) == 1:
            current = [names[0], current[0]]
        nodes.append(helper.make_node(op, current, [f"y{number}"], **attributes))
        current = [f"y{number}"]
    import onnx

    graph = helper.make_graph(nodes, "one", shown, [onnx.ValueInfoProto(name=current[0])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return np.asarray(session.run(None, dict(zip(names, values, strict=True)))[0])
    except Exception:  # a form that does not fit is refused in many ways
        return None


def expected_output(op_type: str, golden: Sequence[Array], output: Array, target: Sequence[Array]) -> Array | None:
    """What operator ``op_type`` makes of the target's inputs, None when no form reproduces the golden output."""
    reference = output.astype(np.float64).reshape(-1)
    for form in itertools.islice(forms(op_type, golden, output), MAX_FORMS):
        made = execute(form, golden)
        if made is not None and made.size == reference.size and _close(reference, made.reshape(-1).astype(np.float64)):
            return execute(form, target)
    return None


def _close(a: Array, b: Array) -> bool:
    finite = np.isfinite(a) & np.isfinite(b)
    same = np.array_equal(np.isnan(a), np.isnan(b)) and np.array_equal(np.isinf(a), np.isinf(b))
    if not same:
        return False
    x, y = a[finite], b[finite]
    return float(np.linalg.norm(x - y)) <= FITS * float(np.linalg.norm(x)) + 1e-30
