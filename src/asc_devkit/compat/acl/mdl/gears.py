"""Models converted for several shapes: which there are, and choosing one."""

from __future__ import annotations

from typing import Any

import numpy as np

from asc_devkit.compat.acl.calls import call
from asc_devkit.compat.acl.mdl.datasets import dataset
from asc_devkit.compat.acl.mdl.describe import Dims, ModelDesc, dims_of, found
from asc_devkit.compat.acl.mdl.loading import model
from asc_devkit.npu.device import DeviceFault
from asc_devkit.om import mbatch

__all__ = [
    "get_dynamic_batch",
    "get_dynamic_hw",
    "get_input_dynamic_dims",
    "get_input_dynamic_gear_count",
    "set_dynamic_batch_size",
    "set_dynamic_hw_size",
    "set_input_dynamic_dims",
]
BATCH, IMAGE, DIMS = "batch", "image", "dims"


@call("aclmdlGetDynamicBatch", {})
def get_dynamic_batch(model_desc: int, /) -> dict[str, Any]:
    """{batchCount, batch}; 0 and [] for a model without batch gears."""
    gears = found(model_desc).source.in_out.batch_gears
    return {"batchCount": len(gears), "batch": list(gears)}


@call("aclmdlGetDynamicHW", {})
def get_dynamic_hw(model_desc: int, index: int, /) -> dict[str, Any]:
    """{hwCount, hw: [[height, width], ...]}"""
    gears = found(model_desc).source.in_out.image_gears
    return {"hwCount": len(gears), "hw": [list(gear) for gear in gears]}


@call("aclmdlGetInputDynamicGearCount", 0)
def get_input_dynamic_gear_count(model_desc: int, index: int, /) -> int:
    """How many gears of dimensions there are; ``index`` is -1, all inputs change together."""
    _together(index)
    return len(found(model_desc).source.in_out.dim_gears)


@call("aclmdlGetInputDynamicDims", [])
def get_input_dynamic_dims(model_desc: int, index: int, gear_count: int, /) -> list[Dims]:
    """The shapes of all inputs, one behind the other, for each gear."""
    _together(index)
    made = found(model_desc)
    gears = made.source.in_out.dim_gears
    if gear_count < len(gears) or gear_count > mbatch.MAX_GEARS:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"The model has {len(gears)} gears, {gear_count} were asked for.")
    return [dims_of("", _whole(made, gear)) for gear in gears]


@call("aclmdlSetDynamicBatchSize")
def set_dynamic_batch_size(model_id: int, dataset_handle: int, index: int, batch_size: int, /) -> None:
    _choose(model_id, dataset_handle, index, BATCH, (batch_size,))


@call("aclmdlSetDynamicHWSize")
def set_dynamic_hw_size(model_id: int, dataset_handle: int, index: int, height: int, width: int, /) -> None:
    _choose(model_id, dataset_handle, index, IMAGE, (height, width))


@call("aclmdlSetInputDynamicDims")
def set_input_dynamic_dims(model_id: int, dataset_handle: int, index: int, dims: Dims, /) -> None:
    """``dims``: the shapes of all inputs, one behind the other (as ``get_input_dynamic_dims`` returns them)."""
    if not isinstance(dims, dict):
        raise TypeError("argument 4 is not dict")
    given = tuple(int(d) for d in list(dims["dims"])[: int(dims["dimCount"])])
    known = model(model_id)
    shapes = [d for slot in known.inputs if slot.info.name != mbatch.DATA for d in slot.info.shape]
    if len(given) != len(shapes) or any(s not in (-1, d) for s, d in zip(shapes, given, strict=True)):
        raise DeviceFault(
            "ACL_ERROR_GE_PARAM_INVALID", f"The dimensions {list(given)} do not fit the inputs' {list(shapes)}."
        )
    _choose(model_id, dataset_handle, index, DIMS, tuple(d for s, d in zip(shapes, given, strict=True) if s == -1))


def _choose(model_id: int, handle: int, index: int, kind: str, values: tuple[int, ...]) -> None:
    """Write the gear's values into the buffer of the model's extra input, where the execution reads them."""
    known = model(model_id)
    described = known.file.in_out
    own = {BATCH: described.batch_gears, IMAGE: described.image_gears, DIMS: described.dim_gears}[kind]
    if not own:
        raise DeviceFault(
            "ACL_ERROR_MODEL_NOT_DYNAMIC",
            f"Model {known.name} was not converted with gears of this kind ({kind}).",
            fix="Convert it with --dynamic_batch_size, --dynamic_image_size or --dynamic_dims.",
        )
    if not 0 <= index < len(known.inputs) or known.inputs[index].info.name != mbatch.DATA:
        raise DeviceFault(
            "ACL_ERROR_GE_DYNAMIC_INPUT_ADDR_INVALID",
            f"Input {index} does not take the gear.",
            fix=f"Ask acl.mdl.get_input_index_by_name for {mbatch.DATA}.",
        )
    gear = known.gear_of(values)
    buffers = dataset(handle).buffers
    if index >= len(buffers):
        raise DeviceFault("ACL_ERROR_MODEL_INPUT_NOT_MATCH", f"The dataset has no buffer {index} for the gear.")
    raw = buffers[index][1].raw(f"buffer of {mbatch.DATA}")
    row = np.array(values, np.int32).view(np.uint8)
    if len(raw) < len(row):
        raise DeviceFault("ACL_ERROR_GE_DYNAMIC_INPUT_LENGTH_INVALID", f"The gear's buffer has {len(raw)} bytes.")
    raw[: len(row)] = row
    known.gear = gear


def _whole(made: ModelDesc, gear: tuple[int, ...]) -> tuple[int, ...]:
    values = iter(gear)
    shapes = [info.shape for info in made.inputs if info.name != mbatch.DATA]
    return tuple(next(values) if d == -1 else d for shape in shapes for d in shape)


def _together(index: int) -> None:
    if index not in (-1, (1 << 64) - 1):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"Gears belong to all inputs: pass -1, not {index}.")
