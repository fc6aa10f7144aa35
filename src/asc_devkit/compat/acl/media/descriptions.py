"""Memory, channels, and the descriptions of pictures, streams, areas and settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asc_devkit.compat.acl.calls import call
from asc_devkit.npu import device
from asc_devkit.npu.device import DeviceFault
from asc_devkit.npu.media import formats
from asc_devkit.npu.media.formats import Family, Format, MediaError
from asc_devkit.npu.media.vision import Area, Picture

Array = np.ndarray[Any, Any]


@dataclass(eq=False)
class Channel:
    """``mode`` as set by the program; ``created`` between create and destroy."""

    created: bool = False
    mode: int = 0


@dataclass(eq=False)
class PicDesc:
    """A picture in device memory."""

    data: int = 0
    size: int = 0
    format: int = 0
    width: int = 0
    height: int = 0
    width_stride: int = 0
    height_stride: int = 0
    ret_code: int = 0

    def picture(self, what: str) -> Picture:
        """The memory with its layout. Raises ``DeviceFault`` for memory or formats that cannot be."""
        raw = device.current().memory.array(self.data, self.size, what) if self.size else np.empty(0, np.uint8)
        return Picture(raw, format_of(self.format), self.width, self.height, self.width_stride, self.height_stride)


@dataclass(eq=False)
class BatchDesc:
    pictures: list[PicDesc]
    handles: list[int] = field(default_factory=list)


@dataclass(eq=False)
class StreamDesc:
    """A piece of compressed video."""

    data: int = 0
    size: int = 0
    format: int = 0
    timestamp: int = 0
    ret_code: int = 0
    eos: int = 0


@dataclass(eq=False)
class Roi:
    left: int
    right: int
    top: int
    bottom: int

    @property
    def area(self) -> Area:
        return Area(self.left, self.right, self.top, self.bottom)


@dataclass(eq=False)
class ResizeConfig:
    interpolation: int = 0


@dataclass(eq=False)
class JpegeConfig:
    level: int = 100


def refused(error: MediaError) -> DeviceFault:
    """What the media unit says about arguments it does not take."""
    return DeviceFault("ACL_ERROR_INVALID_PARAM", f"The media unit refuses it: {error}.", fix="See docs/dvpp.md.")


def format_of(number: int) -> Format:
    try:
        return formats.of(number)
    except MediaError as error:
        raise refused(error) from error


def rules() -> Family:
    """What the media unit of the chip takes."""
    return formats.family(device.current().soc.generation)


def get(handle: int, kind: type[Any]) -> Any:
    return device.current().handles.get(handle, kind)


def _add(item: Any) -> int:
    return device.current().handles.add(item)


def _remove(handle: int, kind: type[Any]) -> None:
    device.current().handles.remove(handle, kind)


# --- memory and channels --------------------------------------------------------------------------------------------


@call("acldvppMalloc", 0)
def dvpp_malloc(size: int, /) -> int:
    """Address of memory that the media unit can use."""
    runtime = device.current()
    return runtime.memory.allocate(size, runtime.device, "dvpp")


@call("acldvppFree")
def dvpp_free(dev_ptr: int, /) -> None:
    device.current().memory.free(dev_ptr, False, "dvpp")


@call("acldvppCreateChannelDesc", 0, bare=True)
def dvpp_create_channel_desc() -> int:
    return _add(Channel())


@call("acldvppDestroyChannelDesc")
def dvpp_destroy_channel_desc(channel_desc: int, /) -> None:
    _remove(channel_desc, Channel)


@call("acldvppSetChannelDescMode")
def dvpp_set_channel_desc_mode(channel_desc: int, mode: int, /) -> None:
    get(channel_desc, Channel).mode = mode


@call("acldvppCreateChannel")
def dvpp_create_channel(channel_desc: int, /) -> None:
    found = get(channel_desc, Channel)
    _ = device.current().context  # there has to be one
    if found.created:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", "The channel exists already.", fix="Destroy it first.")
    found.created = True


@call("acldvppDestroyChannel")
def dvpp_destroy_channel(channel_desc: int, /) -> None:
    channel(channel_desc).created = False


def channel(handle: int) -> Channel:
    """A channel that exists. Raises ``DeviceFault``."""
    found: Channel = get(handle, Channel)
    if not found.created:
        raise DeviceFault(
            "ACL_ERROR_INVALID_PARAM", "The channel does not exist.", fix="Call acl.media.dvpp_create_channel."
        )
    return found


# --- pictures -------------------------------------------------------------------------------------------------------


@call("acldvppCreatePicDesc", 0, bare=True)
def dvpp_create_pic_desc() -> int:
    return _add(PicDesc())


@call("acldvppDestroyPicDesc")
def dvpp_destroy_pic_desc(pic_desc: int, /) -> None:
    _remove(pic_desc, PicDesc)


def _setter(name: str, function: str, kind: type[Any]) -> Any:
    @call(function)
    def set_value(handle: int, value: int, /) -> None:
        if not isinstance(value, (int, np.integer)) or value < 0:
            raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"{value!r} is no {name}.")
        setattr(get(handle, kind), name, int(value))

    return set_value


def _getter(name: str, function: str, kind: type[Any]) -> Any:
    @call(function, 0, bare=True)
    def get_value(handle: int, /) -> int:
        return int(getattr(get(handle, kind), name))

    return get_value


dvpp_set_pic_desc_data = _setter("data", "acldvppSetPicDescData", PicDesc)
dvpp_set_pic_desc_size = _setter("size", "acldvppSetPicDescSize", PicDesc)
dvpp_set_pic_desc_format = _setter("format", "acldvppSetPicDescFormat", PicDesc)
dvpp_set_pic_desc_width = _setter("width", "acldvppSetPicDescWidth", PicDesc)
dvpp_set_pic_desc_height = _setter("height", "acldvppSetPicDescHeight", PicDesc)
dvpp_set_pic_desc_width_stride = _setter("width_stride", "acldvppSetPicDescWidthStride", PicDesc)
dvpp_set_pic_desc_height_stride = _setter("height_stride", "acldvppSetPicDescHeightStride", PicDesc)
dvpp_set_pic_desc_ret_code = _setter("ret_code", "acldvppSetPicDescRetCode", PicDesc)
dvpp_get_pic_desc_data = _getter("data", "acldvppGetPicDescData", PicDesc)
dvpp_get_pic_desc_size = _getter("size", "acldvppGetPicDescSize", PicDesc)
dvpp_get_pic_desc_format = _getter("format", "acldvppGetPicDescFormat", PicDesc)
dvpp_get_pic_desc_width = _getter("width", "acldvppGetPicDescWidth", PicDesc)
dvpp_get_pic_desc_height = _getter("height", "acldvppGetPicDescHeight", PicDesc)
dvpp_get_pic_desc_width_stride = _getter("width_stride", "acldvppGetPicDescWidthStride", PicDesc)
dvpp_get_pic_desc_height_stride = _getter("height_stride", "acldvppGetPicDescHeightStride", PicDesc)
dvpp_get_pic_desc_ret_code = _getter("ret_code", "acldvppGetPicDescRetCode", PicDesc)


@call("acldvppCreateBatchPicDesc", 0, bare=True)
def dvpp_create_batch_pic_desc(batch_size: int, /) -> int:
    if not 1 <= batch_size <= formats.limit("batch"):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"A batch of {batch_size} pictures is not possible.")
    made = BatchDesc([PicDesc() for _ in range(batch_size)])
    made.handles = [_add(picture) for picture in made.pictures]
    return _add(made)


@call("acldvppGetPicDesc", 0, bare=True)
def dvpp_get_pic_desc(batch_pic_desc: int, index: int, /) -> int:
    found: BatchDesc = get(batch_pic_desc, BatchDesc)
    if not 0 <= index < len(found.handles):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"The batch has {len(found.handles)} pictures, no number {index}.")
    return found.handles[index]


@call("acldvppDestroyBatchPicDesc")
def dvpp_destroy_batch_pic_desc(batch_pic_desc: int, /) -> None:
    found: BatchDesc = get(batch_pic_desc, BatchDesc)
    for handle in found.handles:
        _remove(handle, PicDesc)
    _remove(batch_pic_desc, BatchDesc)


# --- streams, areas, settings ---------------------------------------------------------------------------------------


@call("acldvppCreateStreamDesc", 0, bare=True)
def dvpp_create_stream_desc() -> int:
    return _add(StreamDesc())


@call("acldvppDestroyStreamDesc")
def dvpp_destroy_stream_desc(stream_desc: int, /) -> None:
    _remove(stream_desc, StreamDesc)


dvpp_set_stream_desc_data = _setter("data", "acldvppSetStreamDescData", StreamDesc)
dvpp_set_stream_desc_size = _setter("size", "acldvppSetStreamDescSize", StreamDesc)
dvpp_set_stream_desc_format = _setter("format", "acldvppSetStreamDescFormat", StreamDesc)
dvpp_set_stream_desc_timestamp = _setter("timestamp", "acldvppSetStreamDescTimestamp", StreamDesc)
dvpp_set_stream_desc_ret_code = _setter("ret_code", "acldvppSetStreamDescRetCode", StreamDesc)
dvpp_set_stream_desc_eos = _setter("eos", "acldvppSetStreamDescEos", StreamDesc)
dvpp_get_stream_desc_data = _getter("data", "acldvppGetStreamDescData", StreamDesc)
dvpp_get_stream_desc_size = _getter("size", "acldvppGetStreamDescSize", StreamDesc)
dvpp_get_stream_desc_format = _getter("format", "acldvppGetStreamDescFormat", StreamDesc)
dvpp_get_stream_desc_timestamp = _getter("timestamp", "acldvppGetStreamDescTimestamp", StreamDesc)
dvpp_get_stream_desc_ret_code = _getter("ret_code", "acldvppGetStreamDescRetCode", StreamDesc)
dvpp_get_stream_desc_eos = _getter("eos", "acldvppGetStreamDescEos", StreamDesc)


@call("acldvppCreateRoiConfig", 0, bare=True)
def dvpp_create_roi_config(left: int, right: int, top: int, bottom: int, /) -> int:
    """An area; right and bottom belong to it."""
    return _add(Roi(int(left), int(right), int(top), int(bottom)))


@call("acldvppDestroyRoiConfig")
def dvpp_destroy_roi_config(roi_config: int, /) -> None:
    _remove(roi_config, Roi)


@call("acldvppSetRoiConfig")
def dvpp_set_roi_config(roi_config: int, left: int, right: int, top: int, bottom: int, /) -> None:
    found: Roi = get(roi_config, Roi)
    found.left, found.right, found.top, found.bottom = int(left), int(right), int(top), int(bottom)


@call("acldvppCreateResizeConfig", 0, bare=True)
def dvpp_create_resize_config() -> int:
    return _add(ResizeConfig())


@call("acldvppDestroyResizeConfig")
def dvpp_destroy_resize_config(resize_config: int, /) -> None:
    _remove(resize_config, ResizeConfig)


dvpp_set_resize_config_interpolation = _setter("interpolation", "acldvppSetResizeConfigInterpolation", ResizeConfig)
dvpp_get_resize_config_interpolation = _getter("interpolation", "acldvppGetResizeConfigInterpolation", ResizeConfig)


@call("acldvppCreateJpegeConfig", 0, bare=True)
def dvpp_create_jpege_config() -> int:
    return _add(JpegeConfig())


@call("acldvppDestroyJpegeConfig")
def dvpp_destroy_jpege_config(jpege_config: int, /) -> None:
    _remove(jpege_config, JpegeConfig)


@call("acldvppSetJpegeConfigLevel")
def dvpp_set_jpege_config_level(jpege_config: int, level: int, /) -> None:
    if not 0 <= level <= 100:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"The level {level} is not in 0 to 100.")
    get(jpege_config, JpegeConfig).level = level


dvpp_get_jpege_config_level = _getter("level", "acldvppGetJpegeConfigLevel", JpegeConfig)
__all__ = [name for name in dir() if name.startswith("dvpp_")]
