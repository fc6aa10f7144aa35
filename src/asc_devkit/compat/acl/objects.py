"""Data buffers and tensor descriptions: the small objects that calls pass around by handle."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from asc_devkit.compat.acl.calls import call
from asc_devkit.ge import dtypes
from asc_devkit.npu import device
from asc_devkit.npu.device import DeviceFault
from asc_devkit.npu.device.memory import HOST, Block
from asc_devkit.npu.device.sites import call_site
from asc_devkit.npu.numerics import Array

MAX_DIMS = 128


@dataclass(eq=False, slots=True)
class DataBuffer:
    """A piece of memory that a model or an operator reads or writes."""

    address: int
    size: int
    site: str
    block: Block | None = None
    data: Array | None = None

    def raw(self, what: str) -> Array:
        """Its bytes, checked: device memory that has not been freed."""
        block = self.block
        if block is not None and not block.freed_at and self.data is not None:
            return self.data
        memory = device.current().memory
        self.block = memory.check(self.address, self.size, what)
        if (self.block is None or self.block.device == HOST) and not memory.unified:
            raise DeviceFault(
                "ACL_ERROR_RT_INVALID_MEMORY_TYPE",
                f"The {what} lies in host memory ({self.address:#x}).",
                fix="Allocate it with acl.rt.malloc (or acl.media.dvpp_malloc) and copy the data there.",
                where=() if self.block is None else (f"allocated at {self.block.site}",),
            )
        self.data = memory.array(self.address, self.size, what)
        return self.data


@dataclass(eq=False, slots=True)
class TensorDesc:
    """What a tensor is: runtime numbers of type and format, shape (-1 where open)."""

    dtype: int
    shape: tuple[int, ...]
    format: int
    site: str
    name: str = ""
    storage_format: int | None = None
    storage_shape: tuple[int, ...] | None = None
    origin_format: int | None = None
    origin_shape: tuple[int, ...] | None = None
    ranges: tuple[tuple[int, int], ...] = ()
    dynamic_input: str = ""
    constant: bytes | None = None
    address: int = 0
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def elements(self) -> int:
        return 0 if any(d < 0 for d in self.shape) else prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes; 0 while a dimension is open."""
        return -(-self.elements * bits(self.dtype) // 8)

    @property
    def numpy(self) -> np.dtype[Any]:
        """Raises ``DeviceFault`` for types arrays cannot have."""
        row = dtypes.of_acl(self.dtype)
        if row is None or row.numpy is None:
            raise DeviceFault("ACL_ERROR_UNSUPPORTED_DATA_TYPE", f"Data type {self.dtype} cannot be computed with.")
        kind: np.dtype[Any] = np.dtype(row.numpy)
        return kind


def bits(dtype: int) -> int:
    row = dtypes.of_acl(dtype)
    return 0 if row is None else row.bits


def buffer(handle: int) -> DataBuffer:
    return device.current().handles.get(handle, DataBuffer)


def desc(handle: int) -> TensorDesc:
    return device.current().handles.get(handle, TensorDesc)


@call("aclCreateDataBuffer", 0, bare=True)
def create_data_buffer(data: int, size: int, /) -> int:
    """Handle of a buffer over ``size`` bytes at ``data``; both 0 for an output the device is to allocate."""
    if size < 0 or data < 0:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"A buffer of {size} bytes at {data} is not possible.")
    return device.current().handles.add(DataBuffer(int(data), int(size), call_site()))


@call("aclDestroyDataBuffer")
def destroy_data_buffer(data_buffer: int, /) -> None:
    """Forget the buffer; its memory stays."""
    device.current().handles.remove(data_buffer, DataBuffer)


@call("aclGetDataBufferAddr", 0, bare=True)
def get_data_buffer_addr(data_buffer: int, /) -> int:
    return buffer(data_buffer).address


@call("aclGetDataBufferSize", 0, bare=True)
def get_data_buffer_size(data_buffer: int, /) -> int:
    return buffer(data_buffer).size


@call("aclGetDataBufferSizeV2", 0, bare=True)
def get_data_buffer_size_v2(data_buffer: int, /) -> int:
    return buffer(data_buffer).size


@call("aclUpdateDataBuffer")
def update_data_buffer(data_buffer: int, new_data: int, new_size: int, /) -> None:
    """Let the buffer stand for other memory."""
    found = buffer(data_buffer)
    found.address, found.size, found.block, found.data = int(new_data), int(new_size), None, None


@call("aclDataTypeSize", 0, bare=True)
def data_type_size(data_type: int, /) -> int:
    """Bytes of one element; 0 for unknown types and those smaller than a byte."""
    return bits(data_type) // 8


@call("aclCreateTensorDesc", 0, bare=True)
def create_tensor_desc(data_type: int, shape: list[int], format: int, /) -> int:
    dims = _dims(shape)
    return device.current().handles.add(TensorDesc(data_type, dims, format, call_site()))


@call("aclDestroyTensorDesc", bare=True)
def destroy_tensor_desc(tensor_desc: int, /) -> None:
    device.current().handles.remove(tensor_desc, TensorDesc)


@call("aclGetTensorDescType", -1, bare=True)
def get_tensor_desc_type(tensor_desc: int, /) -> int:
    return desc(tensor_desc).dtype


@call("aclGetTensorDescFormat", -1, bare=True)
def get_tensor_desc_format(tensor_desc: int, /) -> int:
    return desc(tensor_desc).format


@call("aclGetTensorDescSize", 0, bare=True)
def get_tensor_desc_size(tensor_desc: int, /) -> int:
    return desc(tensor_desc).size


@call("aclGetTensorDescElementCount", 0, bare=True)
def get_tensor_desc_element_count(tensor_desc: int, /) -> int:
    return desc(tensor_desc).elements


@call("aclGetTensorDescNumDims", 0, bare=True)
def get_tensor_desc_num_dims(tensor_desc: int, /) -> int:
    return len(desc(tensor_desc).shape)


@call("aclGetTensorDescDim", -1, bare=True)
def get_tensor_desc_dim(tensor_desc: int, index: int, /) -> int:
    return _axis(desc(tensor_desc), index)


@call("aclGetTensorDescDimV2", -1)
def get_tensor_desc_dim_v2(tensor_desc: int, index: int, /) -> int:
    return _axis(desc(tensor_desc), index)


@call("aclGetTensorDescDimRange", None)
def get_tensor_desc_dim_range(tensor_desc: int, index: int, dim_range_num: int, /) -> list[int]:
    """[smallest, largest] size of an open axis (-1: no limit)."""
    found = desc(tensor_desc)
    size = _axis(found, index)
    pair = found.ranges[index] if index < len(found.ranges) else (size, size) if size >= 0 else (1, -1)
    return list(pair)[:dim_range_num]


@call("aclGetTensorDescName", "", bare=True)
def get_tensor_desc_name(tensor_desc: int, /) -> str:
    return desc(tensor_desc).name


@call("aclSetTensorDescName", bare=True)
def set_tensor_desc_name(tensor_desc: int, name: str, /) -> None:
    desc(tensor_desc).name = name


@call("aclGetTensorDescAddress", 0, bare=True)
def get_tensor_desc_address(tensor_desc: int, /) -> int:
    return desc(tensor_desc).address


@call("aclSetTensorStorageFormat")
def set_tensor_storage_format(tensor_desc: int, format: int, /) -> None:
    desc(tensor_desc).storage_format = format


@call("aclSetTensorFormat")
def set_tensor_format(tensor_desc: int, format: int, /) -> None:
    desc(tensor_desc).storage_format = format


@call("aclSetTensorOriginFormat")
def set_tensor_origin_format(tensor_desc: int, format: int, /) -> None:
    desc(tensor_desc).origin_format = format


@call("aclSetTensorStorageShape")
def set_tensor_storage_shape(tensor_desc: int, dims: list[int], /) -> None:
    desc(tensor_desc).storage_shape = _dims(dims)


@call("aclSetTensorShape")
def set_tensor_shape(tensor_desc: int, dims: list[int], /) -> None:
    desc(tensor_desc).storage_shape = _dims(dims)


@call("aclSetTensorOriginShape")
def set_tensor_origin_shape(tensor_desc: int, dims: list[int], /) -> None:
    desc(tensor_desc).origin_shape = _dims(dims)


@call("aclSetTensorShapeRange")
def set_tensor_shape_range(tensor_desc: int, dims_range: list[list[int]], /) -> None:
    desc(tensor_desc).ranges = tuple((int(low), int(high)) for low, high in dims_range)


@call("aclSetTensorDynamicInput")
def set_tensor_dynamic_input(tensor_desc: int, name: str, /) -> None:
    desc(tensor_desc).dynamic_input = name


@call("aclSetTensorConst")
def set_tensor_const(tensor_desc: int, data_buffer: int, length: int, /) -> None:
    """The tensor is known when the operator is compiled: ``length`` host bytes at the address ``data_buffer``."""
    found = desc(tensor_desc)
    if length < 0 or (length and not data_buffer):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", "A constant needs an address and a length.")
    found.constant = device.current().memory.array(data_buffer, length, "constant").tobytes() if length else b""


@call("aclSetTensorPlaceMent")
def set_tensor_place_ment(tensor_desc: int, mem_type: int, /) -> None:
    """Where the tensor lies: 0 device, 1 host, 2 host and constant."""
    desc(tensor_desc).facts["memory"] = mem_type


def _dims(shape: list[int]) -> tuple[int, ...]:
    if not isinstance(shape, list | tuple):
        raise TypeError("the shape is not list")
    if len(shape) > MAX_DIMS or any(int(d) < -2 for d in shape):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"{list(shape)[:10]} is no shape.")
    return tuple(int(d) for d in shape)


def _axis(found: TensorDesc, index: int) -> int:
    if not 0 <= index < len(found.shape):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"A tensor of rank {len(found.shape)} has no axis {index}.")
    return found.shape[index]
