"""``acl.op``: single operators of the catalogue, computed as the device would: in float32, rounded to the outputs' types."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from asc_devkit import ops
from asc_devkit.compat.acl.calls import call
from asc_devkit.compat.acl.objects import TensorDesc, buffer, desc
from asc_devkit.ge import dtypes
from asc_devkit.ge.desc import GE_DOMAIN
from asc_devkit.npu import device
from asc_devkit.npu.device import DeviceFault, Task
from asc_devkit.npu.numerics import Array
from asc_devkit.ops.registry import all_ge

__all__ = [
    *("cast", "compile", "create_attr", "create_handle", "destroy_attr", "destroy_handle", "execute", "execute_v2"),
    *("execute_with_handle", "infer_shape", "load", "set_attr_bool", "set_attr_data_type", "set_attr_float"),
    *("set_attr_int", "set_attr_list_bool", "set_attr_list_float", "set_attr_list_int", "set_attr_list_string"),
    *("set_attr_string", "set_model_dir", "update_params"),
]


@dataclass(eq=False)
class Attributes:
    """Values by name."""

    values: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, frozen=True)
class Handle:
    """An operator whose types, shapes and attributes are fixed; ``run`` computes it."""

    run: Callable[[list[Array]], list[Array]]
    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]


@call("aclopSetModelDir")
def set_model_dir(model_dir: str, /) -> None:
    """Folder of single-operator models. The catalogue needs none; the folder has to exist, as on the device."""
    if not Path(model_dir).is_dir():
        raise DeviceFault("ACL_ERROR_INVALID_FILE", f"There is no folder {model_dir}.", fix="Check the path.")


@call("aclopLoad")
def load(model: int, model_size: int, /) -> None:
    """A single-operator model in memory: accepted, since every operator of the catalogue is there."""
    device.current().memory.array(model, model_size, "model")


@call("aclopCreateAttr", 0, bare=True)
def create_attr() -> int:
    return device.current().handles.add(Attributes())


@call("aclopDestroyAttr", bare=True)
def destroy_attr(attr: int, /) -> None:
    device.current().handles.remove(attr, Attributes)


def _set(attr: int, name: str, value: Any) -> None:
    if not isinstance(name, str) or not name:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", "An attribute needs a name.")
    device.current().handles.get(attr, Attributes).values[name] = value


@call("aclopSetAttrBool")
def set_attr_bool(attr: int, attr_name: str, attr_value: bool | int, /) -> None:
    _set(attr, attr_name, int(bool(attr_value)))


@call("aclopSetAttrInt")
def set_attr_int(attr: int, attr_name: str, attr_value: int, /) -> None:
    _set(attr, attr_name, int(attr_value))


@call("aclopSetAttrFloat")
def set_attr_float(attr: int, attr_name: str, attr_value: float, /) -> None:
    _set(attr, attr_name, float(attr_value))


@call("aclopSetAttrString")
def set_attr_string(attr: int, attr_name: str, attr_value: str, /) -> None:
    _set(attr, attr_name, str(attr_value))


@call("aclopSetAttrDataType")
def set_attr_data_type(attr: int, attr_name: str, attr_value: int, /) -> None:
    """A data type by its runtime number."""
    row = dtypes.of_acl(attr_value)
    if row is None or row.ir is None:
        raise DeviceFault("ACL_ERROR_UNSUPPORTED_DATA_TYPE", f"There is no data type {attr_value}.")
    _set(attr, attr_name, int(row.ir))


@call("aclopSetAttrListBool")
def set_attr_list_bool(attr: int, attr_name: str, attr_list: Sequence[int], /) -> None:
    _set(attr, attr_name, [int(bool(v)) for v in attr_list])


@call("aclopSetAttrListInt")
def set_attr_list_int(attr: int, attr_name: str, attr_list: Sequence[int], /) -> None:
    _set(attr, attr_name, [int(v) for v in attr_list])


@call("aclopSetAttrListFloat")
def set_attr_list_float(attr: int, attr_name: str, attr_list: Sequence[float], /) -> None:
    _set(attr, attr_name, [float(v) for v in attr_list])


@call("aclopSetAttrListString")
def set_attr_list_string(attr: int, attr_name: str, attr_list: Sequence[str], /) -> None:
    _set(attr, attr_name, [str(v) for v in attr_list])


@call("aclopCreateHandle", 0)
def create_handle(op_type: str, input_desc: Sequence[int], output_desc: Sequence[int], op_attr: int, /) -> int:
    """An operator that is executed often."""
    return device.current().handles.add(_prepared(op_type, input_desc, output_desc, op_attr))


@call("aclopDestroyHandle", bare=True)
def destroy_handle(handle: int, /) -> None:
    device.current().handles.remove(handle, Handle)


@call("aclopExecWithHandle")
def execute_with_handle(handle: int, inputs: Sequence[int], outputs: Sequence[int], stream: int, /) -> None:
    _submit(device.current().handles.get(handle, Handle), inputs, outputs, stream, "single operator")


@call("aclopExecuteV2")
def execute_v2(
    op_type: str,
    input_desc: Sequence[int],
    inputs: Sequence[int],
    output_desc: Sequence[int],
    outputs: Sequence[int],
    attr: int,
    stream: int,
    /,
) -> None:
    """Compute one operator in the order of the stream."""
    _submit(_prepared(op_type, input_desc, output_desc, attr), inputs, outputs, stream, op_type)


@call("aclopExecute")
def execute(
    op_type: str,
    input_desc: Sequence[int],
    inputs: Sequence[int],
    output_desc: Sequence[int],
    outputs: Sequence[int],
    attr: int,
    stream: int,
    /,
) -> None:
    """As ``execute_v2``."""
    _submit(_prepared(op_type, input_desc, output_desc, attr), inputs, outputs, stream, op_type)


@call("aclopCast")
def cast(src_desc: int, src_buffer: int, dst_desc: int, dst_buffer: int, truncate: int, stream: int, /) -> None:
    """Convert to the type of ``dst_desc``; ``truncate`` as on the device has no effect."""
    handle = _prepared("Cast", [src_desc], [dst_desc], 0, {"dst_type": int(_ir(desc(dst_desc)))})
    _submit(handle, [src_buffer], [dst_buffer], stream, "Cast")


@call("aclopCompile")
def compile(  # the documented name
    op_type: str,
    input_desc: Sequence[int],
    output_desc: Sequence[int],
    attr: int,
    engine_type: int,
    compile_flag: int,
    op_path: str,
    /,
) -> None:
    """Check that the operator can be computed for these types and shapes."""
    _prepared(op_type, input_desc, output_desc, attr)


@call("aclopUpdateParams")
def update_params(op_type: str, input_desc: Sequence[int], output_desc: Sequence[int], attr: int, /) -> None:
    _prepared(op_type, input_desc, output_desc, attr)


@call("aclopInferShape", [])
def infer_shape(
    op_type: str, input_desc: Sequence[int], inputs: Sequence[int], num_outputs: int, attr: int, /
) -> list[int]:
    """Descriptions of the outputs, found by computing them."""
    given = [desc(d) for d in input_desc]
    kind = given[0].dtype if given else 0
    first = [TensorDesc(kind, (), 2, "") for _ in range(num_outputs)]
    made = _graph(op_type, tuple(map(_key, given)), tuple(map(_key, first)), _frozen(_values(attr)))
    arrays = made(_shaped(given, [buffer(b).raw("input") for b in inputs]))
    handles = device.current().handles
    return [handles.add(TensorDesc(kind, tuple(int(n) for n in a.shape), 2, "")) for a in arrays]


# --- computing ------------------------------------------------------------------------------------------------------


def _values(attr: int) -> dict[str, Any]:
    return dict(device.current().handles.get(attr, Attributes).values) if attr else {}


def _prepared(
    op_type: str, inputs: Sequence[int], outputs: Sequence[int], attr: int, more: dict[str, Any] | None = None
) -> Handle:
    given, made = [desc(d) for d in inputs], [desc(d) for d in outputs]
    values = {**_values(attr), **(more or {})}
    constants = tuple((i, d.constant) for i, d in enumerate(given) if d.constant is not None)
    run = _graph(op_type, tuple(map(_key, given)), tuple(map(_key, made)), _frozen(values), constants)
    return Handle(run, tuple(d for d in given if d.constant is None), tuple(made))


def _key(tensor: TensorDesc) -> tuple[int, tuple[int, ...]]:
    return tensor.dtype, tensor.shape


def _frozen(values: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((k, tuple(v) if isinstance(v, list) else v) for k, v in values.items()))


@lru_cache(maxsize=256)
def _graph(
    op_type: str,
    inputs: tuple[tuple[int, tuple[int, ...]], ...],
    outputs: tuple[tuple[int, tuple[int, ...]], ...],
    attributes: tuple[tuple[str, Any], ...],
    constants: tuple[tuple[int, bytes], ...] = (),
) -> Callable[[list[Array]], list[Array]]:
    """The operator as a session of ONNX Runtime. Raises ``DeviceFault`` when it cannot be computed."""
    import onnxruntime as ort

    name = next(
        (n for n in (op_type, f"{op_type}V2", f"{op_type}D", f"{op_type}V3") if ops.lookup(n) is not None), None
    )
    if name is None:
        near = difflib.get_close_matches(op_type, [op.type for op in all_ge()], n=3)
        raise DeviceFault(
            "ACL_ERROR_OP_NOT_FOUND",
            f"There is no operator {op_type!r}.",
            fix=f"Did you mean {' or '.join(near)}?" if near else "`asc op list` shows all.",
        )
    known = dict(constants)
    values: list[ir.Value] = []
    fed: list[ir.Value] = []
    for index, (number, shape) in enumerate(inputs):
        kind = _row(number)
        value = ir.Value(name=f"x{index}", type=ir.TensorType(kind[0]), shape=ir.Shape(shape))
        if index in known:
            value.const_value = ir.Tensor(np.frombuffer(known[index], kind[1]).reshape(shape))
        else:
            fed.append(value)
        values.append(value)
    made = [
        ir.Value(name=f"y{i}", type=ir.TensorType(_row(n)[0]), shape=ir.Shape(s) if s else None)
        for i, (n, s) in enumerate(outputs)
    ]
    node = ir.Node(GE_DOMAIN, name, values, [_attribute(k, v) for k, v in attributes], outputs=made, name="op")
    constant = [v for v in values if v.const_value is not None]
    graph = ir.Graph(fed, made, nodes=[node], initializers=constant, name="op", opset_imports={"": 23, GE_DOMAIN: 1})
    try:
        lowered = ops.convert.to_onnx(ir.Model(graph, ir_version=10), ir.DataType.FLOAT)
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        session = ort.InferenceSession(ir.to_proto(lowered).SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception as error:  # the catalogue, onnx_ir and ONNX Runtime refuse in their own ways
        raise DeviceFault(
            "ACL_ERROR_OP_LOAD_FAILED", f"{op_type} cannot be computed: {str(error).splitlines()[0][:300]}"
        ) from error
    names = [i.name for i in session.get_inputs()]
    types = [_row(number)[1] for number, _ in outputs]

    def run(arrays: list[Array]) -> list[Array]:
        wide = [a.astype(np.float32) if a.dtype.name in ("float16", "bfloat16") else a for a in arrays]
        found = session.run(None, dict(zip(names, wide, strict=True)))
        with np.errstate(over="ignore"):
            return [np.asarray(value).astype(kind) for value, kind in zip(found, types, strict=True)]

    return run


def _row(number: int) -> tuple[ir.DataType, np.dtype[Any]]:
    row = dtypes.of_acl(number)
    if row is None or row.ir is None or row.numpy is None:
        raise DeviceFault("ACL_ERROR_UNSUPPORTED_DATA_TYPE", f"Data type {number} cannot be computed with.")
    return row.ir, np.dtype(row.numpy)


def _ir(tensor: TensorDesc) -> ir.DataType:
    return _row(tensor.dtype)[0]


def _attribute(name: str, value: Any) -> ir.Attr:
    if isinstance(value, tuple):
        first = value[0] if value else 0
        if isinstance(first, float):
            return ir.AttrFloat32s(name, list(value))
        return ir.AttrStrings(name, list(value)) if isinstance(first, str) else ir.AttrInt64s(name, list(value))
    if isinstance(value, float):
        return ir.AttrFloat32(name, value)
    return ir.AttrString(name, value) if isinstance(value, str) else ir.AttrInt64(name, int(value))


def _submit(handle: Handle, inputs: Sequence[int], outputs: Sequence[int], stream: int, name: str) -> None:
    if len(inputs) != len(handle.inputs) or len(outputs) != len(handle.outputs):
        what = f"{len(handle.inputs)} inputs and {len(handle.outputs)} outputs were described"
        raise DeviceFault("ACL_ERROR_OP_INPUT_NOT_MATCH", f"{what}, {len(inputs)} and {len(outputs)} given.")
    rooms = [buffer(b).raw("output") for b in outputs]
    arrays = _shaped(handle.inputs, [buffer(b).raw("input") for b in inputs])

    def work() -> None:
        for array, room in zip(handle.run(arrays), rooms, strict=True):
            if array.nbytes > len(room):
                what = f"An output takes {array.nbytes} bytes; its buffer has {len(room)}."
                raise DeviceFault("ACL_ERROR_OP_OUTPUT_NOT_MATCH", what)
            if array.nbytes:
                np.copyto(room[: array.nbytes].view(array.dtype).reshape(array.shape), array)

    device.current().stream(stream).submit(Task("operator", name, work))


def _shaped(described: Sequence[TensorDesc], raws: Sequence[Array]) -> list[Array]:
    """The memory of inputs as arrays of the described types and shapes; its contents are read in their turn."""
    shaped: list[Array] = []
    for raw, tensor in zip(raws, described, strict=True):
        size = prod(tensor.shape) * tensor.numpy.itemsize
        if len(raw) < size:
            what = f"An input needs {size} bytes; its buffer has {len(raw)}."
            raise DeviceFault("ACL_ERROR_OP_INPUT_NOT_MATCH", what)
        shaped.append(raw[:size].view(tensor.numpy).reshape(tensor.shape))
    return shaped
