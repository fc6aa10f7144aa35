"""Descriptions of models: counts, names, sizes, shapes, formats and types of their inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from asc_devkit import om
from asc_devkit.compat.acl.calls import call
from asc_devkit.compat.acl.mdl.loading import _open, _view, model
from asc_devkit.compat.acl.mdl.model import Model
from asc_devkit.ge.desc import ORIGIN_OPS
from asc_devkit.npu import device
from asc_devkit.npu.device import DeviceFault
from asc_devkit.npu.device.sites import call_site
from asc_devkit.om.inout import TensorInfo

__all__ = [
    "create_desc",
    "destroy_desc",
    "get_cur_output_dims",
    "get_desc",
    "get_desc_from_file",
    "get_desc_from_mem",
    "get_input_data_type",
    "get_input_dims",
    "get_input_dims_range",
    "get_input_dims_v2",
    "get_input_format",
    "get_input_index_by_name",
    "get_input_name_by_index",
    "get_input_size_by_index",
    "get_num_inputs",
    "get_num_outputs",
    "get_op_attr",
    "get_output_data_type",
    "get_output_dims",
    "get_output_format",
    "get_output_index_by_name",
    "get_output_name_by_index",
    "get_output_size_by_index",
    "get_tensor_real_name",
]
Dims = dict[str, Any]
MAX_NAME = 127
_ORIGIN_NAMES = "_datadump_original_op_names"


@dataclass(eq=False)
class ModelDesc:
    """A description that was asked for; ``model`` is None when it came from a file that is not loaded."""

    site: str
    file: om.OmFile | None = None
    model: Model | None = None

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        return self.source.in_out.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        return self.source.in_out.outputs

    @property
    def source(self) -> om.OmFile:
        if self.file is None:
            raise DeviceFault(
                "ACL_ERROR_INVALID_PARAM", "The description is empty.", fix="Call acl.mdl.get_desc first."
            )
        return self.file


def found(handle: int) -> ModelDesc:
    return device.current().handles.get(handle, ModelDesc)


@call("aclmdlCreateDesc", 0, bare=True)
def create_desc() -> int:
    return device.current().handles.add(ModelDesc(call_site()))


@call("aclmdlDestroyDesc")
def destroy_desc(model_desc: int, /) -> None:
    device.current().handles.remove(model_desc, ModelDesc)


@call("aclmdlGetDesc")
def get_desc(model_desc: int, model_id: int, /) -> None:
    made, known = found(model_desc), model(model_id)
    made.file, made.model = known.file, known


@call("aclmdlGetDescFromFile")
def get_desc_from_file(model_desc: int, model_path: str, /) -> None:
    made = found(model_desc)
    made.file, made.model = _open(model_path), None


@call("aclmdlGetDescFromMem")
def get_desc_from_mem(model_desc: int, model_ptr: int, model_size: int, /) -> None:
    made = found(model_desc)
    made.file, made.model = _view(model_ptr, model_size), None


def _of(tensors: tuple[TensorInfo, ...], index: int, what: str) -> TensorInfo:
    if not 0 <= index < len(tensors):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"The model has {len(tensors)} {what}s, none is {index}.")
    return tensors[index]


def dims_of(name: str, shape: tuple[int, ...]) -> Dims:
    return {"name": name, "dimCount": len(shape), "dims": list(shape)}


def _named(handle: int, kind: str, index: int, info: TensorInfo, shape: tuple[int, ...]) -> Dims:
    """Names longer than 127 characters are replaced, as ``get_tensor_real_name`` knows."""
    made = found(handle)
    number = made.model.number if made.model is not None else 0
    name = info.name if len(info.name) <= MAX_NAME else f"acl_modelId_{number}_{kind}_{index}"
    return dims_of(name, shape)


@call("aclmdlGetNumInputs", 0, bare=True)
def get_num_inputs(model_desc: int, /) -> int:
    return len(found(model_desc).inputs)


@call("aclmdlGetNumOutputs", 0, bare=True)
def get_num_outputs(model_desc: int, /) -> int:
    return len(found(model_desc).outputs)


@call("aclmdlGetInputSizeByIndex", 0, bare=True)
def get_input_size_by_index(model_desc: int, index: int, /) -> int:
    """Bytes; of a model with gears: those of the largest."""
    return _of(found(model_desc).inputs, index, "input").size


@call("aclmdlGetOutputSizeByIndex", 0, bare=True)
def get_output_size_by_index(model_desc: int, index: int, /) -> int:
    """Bytes; 0 when they depend on the data."""
    return _of(found(model_desc).outputs, index, "output").size


@call("aclmdlGetInputDims", {})
def get_input_dims(model_desc: int, index: int, /) -> Dims:
    info = _of(found(model_desc).inputs, index, "input")
    return _named(model_desc, "input", index, info, info.shape)


@call("aclmdlGetInputDimsV2", {})
def get_input_dims_v2(model_desc: int, index: int, /) -> Dims:
    """The shape as it is in front of static AIPP."""
    info = _of(found(model_desc).inputs, index, "input")
    return _named(model_desc, "input", index, info, info.dims_v2 or info.shape)


@call("aclmdlGetInputDimsRange", {})
def get_input_dims_range(model_desc: int, index: int, /) -> dict[str, Any]:
    """Smallest and largest size of each axis of an input with ranges."""
    info = _of(found(model_desc).inputs, index, "input")
    return {"rangeCount": len(info.ranges), "range": [list(pair) for pair in info.ranges]}


@call("aclmdlGetOutputDims", {})
def get_output_dims(model_desc: int, index: int, /) -> Dims:
    """The shape; of a model with gears: that of the largest."""
    return _output_dims(model_desc, index, None)


@call("aclmdlGetCurOutputDims", {})
def get_cur_output_dims(model_desc: int, index: int, /) -> Dims:
    """The shape in the gear that is set (none set: the largest)."""
    known = found(model_desc).model
    return _output_dims(model_desc, index, None if known is None else known.gear)


def _output_dims(handle: int, index: int, gear: int | None) -> Dims:
    made = found(handle)
    info = _of(made.outputs, index, "output")
    shape = info.shape
    if made.model is not None and made.model.geared is not None:
        shape = made.model.output_shape(index, gear)
    return _named(handle, "output", index, info, shape)


@call("aclmdlGetInputNameByIndex", "", bare=True)
def get_input_name_by_index(model_desc: int, index: int, /) -> str:
    return _of(found(model_desc).inputs, index, "input").name


@call("aclmdlGetOutputNameByIndex", "", bare=True)
def get_output_name_by_index(model_desc: int, index: int, /) -> str:
    return _of(found(model_desc).outputs, index, "output").name


@call("aclmdlGetInputFormat", -1, bare=True)
def get_input_format(model_desc: int, index: int, /) -> int:
    return _of(found(model_desc).inputs, index, "input").format


@call("aclmdlGetOutputFormat", -1, bare=True)
def get_output_format(model_desc: int, index: int, /) -> int:
    return _of(found(model_desc).outputs, index, "output").format


@call("aclmdlGetInputDataType", -1, bare=True)
def get_input_data_type(model_desc: int, index: int, /) -> int:
    return _of(found(model_desc).inputs, index, "input").acl_dtype


@call("aclmdlGetOutputDataType", -1, bare=True)
def get_output_data_type(model_desc: int, index: int, /) -> int:
    return _of(found(model_desc).outputs, index, "output").acl_dtype


@call("aclmdlGetInputIndexByName", 0)
def get_input_index_by_name(model_desc: int, name: str, /) -> int:
    return _index(found(model_desc).inputs, name, "input")


@call("aclmdlGetOutputIndexByName", 0)
def get_output_index_by_name(model_desc: int, name: str, /) -> int:
    return _index(found(model_desc).outputs, name, "output")


def _index(tensors: tuple[TensorInfo, ...], name: str, what: str) -> int:
    for index, info in enumerate(tensors):
        if info.name == name:
            return index
    names = ", ".join(info.name for info in tensors)
    raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"The model has no {what} {name!r}.", fix=f"Its {what}s are {names}.")


@call("aclmdlGetTensorRealName", "", bare=True)
def get_tensor_real_name(model_desc: int, name: str, /) -> str:
    """The full name behind a replaced one; other names unchanged."""
    made = found(model_desc)
    number = made.model.number if made.model is not None else 0
    for kind, tensors in (("input", made.inputs), ("output", made.outputs)):
        for index, info in enumerate(tensors):
            if name in (info.name, f"acl_modelId_{number}_{kind}_{index}"):
                return info.name
    raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"The model has no tensor {name!r}.")


@call("aclmdlGetOpAttr", "", bare=True)
def get_op_attr(model_desc: int, op_name: str, attr: str, /) -> str:
    """``_datadump_original_op_names`` of an operator: the operators of the user's model it stands for, each as
    ``[length]name``."""
    made = found(model_desc)
    if attr != _ORIGIN_NAMES:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"Attribute {attr!r} cannot be asked for.")
    file = made.source
    for node in file.to_ir(0 if file.gears else None).graph:
        if node.name == op_name:
            return "".join(f"[{len(name)}]{name}" for name, _ in node.meta.get(ORIGIN_OPS, ()))
    raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"The model has no operator {op_name!r}.")
