"""Parameters of dynamic AIPP: an object per batch, filled by setters, then given to a model's input."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asc_devkit.compat.acl.calls import call
from asc_devkit.compat.acl.mdl.datasets import dataset
from asc_devkit.compat.acl.mdl.loading import model
from asc_devkit.compat.acl.mdl.model import Model
from asc_devkit.ge.pictures import MAX_PARAMETER_PICTURES, PICTURES, parameter_bytes
from asc_devkit.npu import device
from asc_devkit.npu.aipp_params import AippParameters, PictureParameters
from asc_devkit.npu.device import DeviceFault
from asc_devkit.npu.device.sites import call_site
from asc_devkit.npu.preprocessing import AippSession

__all__ = [
    "create_aipp",
    "destroy_aipp",
    "get_aipp_data_size",
    "get_aipp_type",
    "set_aipp_ax_swap_switch",
    "set_aipp_by_input_index",
    "set_aipp_crop_params",
    "set_aipp_csc_params",
    "set_aipp_dtc_pixel_mean",
    "set_aipp_dtc_pixel_min",
    "set_aipp_input_format",
    "set_aipp_padding_params",
    "set_aipp_pixel_var_reci",
    "set_aipp_rbuv_swap_switch",
    "set_aipp_src_image_size",
    "set_input_aipp",
]
WITHOUT, STATIC, DYNAMIC, PARAMETERS = 0, 1, 2, 3
NO_INDEX = 0xFFFFFFFF


@dataclass(eq=False)
class Aipp:
    """What is being set; the format and size are still unset."""

    site: str
    batch: int
    shared: dict[str, Any] = field(default_factory=dict)
    pictures: list[PictureParameters] = field(default_factory=list)

    def parameters(self) -> AippParameters:
        missing = [name for name in ("input_format", "src_image_size_w") if name not in self.shared]
        if missing:
            raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"{' and '.join(missing)} of the AIPP parameters are not set.")
        return AippParameters(**self.shared, pictures=self.pictures)

    def picture(self, index: int) -> PictureParameters:
        if not 0 <= index < self.batch:
            raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"There is no picture {index} in a batch of {self.batch}.")
        return self.pictures[index]


def _aipp(handle: int) -> Aipp:
    return device.current().handles.get(handle, Aipp)


@call("aclmdlCreateAIPP", 0, bare=True)
def create_aipp(batch_size: int, /) -> int:
    """Handle of parameters for ``batch_size`` pictures; nothing is cropped, padded or normalised yet."""
    if not 1 <= batch_size <= MAX_PARAMETER_PICTURES:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"A batch of {batch_size} pictures is not possible.")
    pictures = [PictureParameters() for _ in range(batch_size)]
    return device.current().handles.add(Aipp(call_site(), batch_size, {}, pictures))


@call("aclmdlDestroyAIPP")
def destroy_aipp(aipp_set: int, /) -> None:
    device.current().handles.remove(aipp_set, Aipp)


@call("aclmdlSetAIPPInputFormat")
def set_aipp_input_format(aipp_set: int, input_format: int, /) -> None:
    """1 YUV420SP, 2 XRGB8888, 3 RGB888, 4 YUV400, ..."""
    names = {picture.code: name for name, picture in PICTURES.items()}
    if input_format not in names:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"AIPP reads no picture format {input_format}.")
    _aipp(aipp_set).shared["input_format"] = names[input_format]


@call("aclmdlSetAIPPSrcImageSize")
def set_aipp_src_image_size(aipp_set: int, src_image_size_w: int, src_image_size_h: int, /) -> None:
    _aipp(aipp_set).shared.update(src_image_size_w=src_image_size_w, src_image_size_h=src_image_size_h)


@call("aclmdlSetAIPPRbuvSwapSwitch")
def set_aipp_rbuv_swap_switch(aipp_set: int, rbuv_swap_switch: int, /) -> None:
    _aipp(aipp_set).shared["rbuv_swap_switch"] = _switch(rbuv_swap_switch)


@call("aclmdlSetAIPPAxSwapSwitch")
def set_aipp_ax_swap_switch(aipp_set: int, ax_swap_switch: int, /) -> None:
    _aipp(aipp_set).shared["ax_swap_switch"] = _switch(ax_swap_switch)


@call("aclmdlSetAIPPCscParams")
def set_aipp_csc_params(
    aipp_set: int,
    csc_switch: int,
    r0c0: int,
    r0c1: int,
    r0c2: int,
    r1c0: int,
    r1c1: int,
    r1c2: int,
    r2c0: int,
    r2c1: int,
    r2c2: int,
    output_bias_0: int,
    output_bias_1: int,
    output_bias_2: int,
    input_bias_0: int,
    input_bias_1: int,
    input_bias_2: int,
    /,
) -> None:
    """Colour matrix in 256ths and biases."""
    _aipp(aipp_set).shared.update(
        csc_switch=_switch(csc_switch),
        matrix=(r0c0, r0c1, r0c2, r1c0, r1c1, r1c2, r2c0, r2c1, r2c2),
        output_bias=(output_bias_0, output_bias_1, output_bias_2),
        input_bias=(input_bias_0, input_bias_1, input_bias_2),
    )


@call("aclmdlSetAIPPCropParams")
def set_aipp_crop_params(
    aipp_set: int, crop_switch: int, start_w: int, start_h: int, size_w: int, size_h: int, batch_index: int, /
) -> None:
    picture = _aipp(aipp_set).picture(batch_index)
    picture.crop = _switch(crop_switch)
    picture.load_start_pos_w, picture.load_start_pos_h = start_w, start_h
    picture.crop_size_w, picture.crop_size_h = size_w, size_h


@call("aclmdlSetAIPPPaddingParams")
def set_aipp_padding_params(
    aipp_set: int, padding_switch: int, top: int, bottom: int, left: int, right: int, batch_index: int, /
) -> None:
    picture = _aipp(aipp_set).picture(batch_index)
    picture.padding = _switch(padding_switch)
    picture.top_padding_size, picture.bottom_padding_size = top, bottom
    picture.left_padding_size, picture.right_padding_size = left, right


@call("aclmdlSetAIPPDtcPixelMean")
def set_aipp_dtc_pixel_mean(aipp_set: int, c0: int, c1: int, c2: int, c3: int, batch_index: int, /) -> None:
    _aipp(aipp_set).picture(batch_index).mean_chn = (c0, c1, c2, c3)


@call("aclmdlSetAIPPDtcPixelMin")
def set_aipp_dtc_pixel_min(aipp_set: int, c0: float, c1: float, c2: float, c3: float, batch_index: int, /) -> None:
    _aipp(aipp_set).picture(batch_index).min_chn = (c0, c1, c2, c3)


@call("aclmdlSetAIPPPixelVarReci")
def set_aipp_pixel_var_reci(aipp_set: int, c0: float, c1: float, c2: float, c3: float, batch_index: int, /) -> None:
    _aipp(aipp_set).picture(batch_index).var_reci_chn = (c0, c1, c2, c3)


@call("aclmdlSetInputAIPP")
def set_input_aipp(model_id: int, dataset_handle: int, index: int, aipp_set: int, /) -> None:
    """Give the parameters to the model's parameter input ``index`` (``ascend_dynamic_aipp_data``)."""
    known = model(model_id)
    session = _session(known)
    name = known.inputs[index].info.name if 0 <= index < len(known.inputs) else ""
    if name not in {item.parameters for item in session.dynamic.values()}:
        raise DeviceFault("ACL_ERROR_GE_AIPP_NOT_EXIST", f"Input {index} takes no AIPP parameters.")
    _write(known, dataset_handle, index, _aipp(aipp_set))


@call("aclmdlSetAIPPByInputIndex")
def set_aipp_by_input_index(model_id: int, dataset_handle: int, index: int, aipp_set: int, /) -> None:
    """As ``set_input_aipp``; ``index`` is that of the picture input."""
    known = model(model_id)
    _write(known, dataset_handle, _attached(known, index), _aipp(aipp_set))


@call("aclmdlGetAippType", WITHOUT, NO_INDEX)
def get_aipp_type(model_id: int, index: int, /) -> tuple[int, int]:
    """(0 none, 1 static, 2 dynamic, 3 the parameters of dynamic AIPP; index of the parameter input; ret)"""
    known = model(model_id)
    if not 0 <= index < len(known.inputs):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"The model has {len(known.inputs)} inputs, none is {index}.")
    name = known.inputs[index].info.name
    if isinstance(known.session, AippSession):
        if name in known.session.dynamic:
            return DYNAMIC, _attached(known, index)
        if name in {item.parameters for item in known.session.dynamic.values()}:
            return PARAMETERS, NO_INDEX
    graph = known.file.to_ir(0 if known.geared is not None else None).graph
    static = any(
        node.op_type == "Aipp" and value is not None and value.name == name for node in graph for value in node.inputs
    )
    return (STATIC if static else WITHOUT), NO_INDEX


@call("aclmdlGetAippDataSize", 0)
def get_aipp_data_size(batch_size: int, /) -> int:
    """Bytes of the parameters of a batch."""
    return parameter_bytes(batch_size)


def _session(known: Model) -> AippSession:
    if not isinstance(known.session, AippSession):
        raise DeviceFault(
            "ACL_ERROR_GE_AIPP_NOT_EXIST",
            f"Model {known.name} has no dynamic AIPP.",
            fix="Convert it with --insert_op_conf and aipp_mode: dynamic.",
        )
    return known.session


def _attached(known: Model, index: int) -> int:
    session = _session(known)
    name = known.inputs[index].info.name if 0 <= index < len(known.inputs) else ""
    item = session.dynamic.get(name)
    for other, slot in enumerate(known.inputs):
        if item is not None and slot.info.name == item.parameters:
            return other
    raise DeviceFault("ACL_ERROR_GE_AIPP_NOT_EXIST", f"Input {index} has no dynamic AIPP.")


def _write(known: Model, handle: int, index: int, aipp: Aipp) -> None:
    buffers = dataset(handle).buffers
    if index >= len(buffers):
        raise DeviceFault("ACL_ERROR_MODEL_INPUT_NOT_MATCH", f"The dataset has no buffer {index} for the parameters.")
    raw = buffers[index][1].raw("buffer of the AIPP parameters")
    packed = aipp.parameters().pack()
    if len(raw) < len(packed):
        raise DeviceFault(
            "ACL_ERROR_INVALID_PARAM",
            f"The parameters of {aipp.batch} pictures take {len(packed)} bytes; their buffer has {len(raw)}.",
        )
    raw[: len(packed)] = np.asarray(packed)


def _switch(value: int) -> bool:
    if value not in (0, 1):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"A switch is 0 or 1, not {value}.")
    return bool(value)
