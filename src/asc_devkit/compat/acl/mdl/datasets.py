"""Datasets: the lists of buffers a model reads and writes."""

from __future__ import annotations

from dataclasses import dataclass, field

from asc_devkit.compat.acl.calls import call
from asc_devkit.compat.acl.objects import DataBuffer, TensorDesc, buffer, desc
from asc_devkit.npu import device
from asc_devkit.npu.device import DeviceFault
from asc_devkit.npu.device.sites import call_site

__all__ = [
    "add_dataset_buffer",
    "create_dataset",
    "destroy_dataset",
    "get_dataset_buffer",
    "get_dataset_num_buffers",
    "get_dataset_tensor_desc",
    "set_dataset_tensor_desc",
]


@dataclass(eq=False, slots=True)
class Dataset:
    """``buffers`` in order with their handles; ``descs`` by index: shapes given for inputs, or found for outputs."""

    site: str
    buffers: list[tuple[int, DataBuffer]] = field(default_factory=list)
    descs: dict[int, int] = field(default_factory=dict)
    own: set[int] = field(default_factory=set)

    def note_shape(self, index: int, dtype: int, shape: tuple[int, ...], fmt: int) -> None:
        """What an execution found output ``index`` to be."""
        handles = device.current().handles
        if index in self.own:
            handles.get(self.descs[index], TensorDesc).shape = shape
            return
        if index not in self.descs:
            self.descs[index] = handles.add(TensorDesc(dtype, shape, fmt, self.site))
            self.own.add(index)
            return
        found = desc(self.descs[index])
        found.shape = shape


def dataset(handle: int) -> Dataset:
    return device.current().handles.get(handle, Dataset)


@call("aclmdlCreateDataset", 0, bare=True)
def create_dataset() -> int:
    return device.current().handles.add(Dataset(call_site()))


@call("aclmdlDestroyDataset")
def destroy_dataset(dataset_handle: int, /) -> None:
    """Forget the list; its buffers and their memory stay."""
    handles = device.current().handles
    gone = handles.remove(dataset_handle, Dataset)
    for index in gone.own:
        handles.remove(gone.descs[index], TensorDesc)


@call("aclmdlAddDatasetBuffer", 0)
def add_dataset_buffer(dataset_handle: int, data_buffer: int, /) -> int:
    """(the dataset, ret)"""
    dataset(dataset_handle).buffers.append((data_buffer, buffer(data_buffer)))
    return dataset_handle


@call("aclmdlGetDatasetNumBuffers", 0, bare=True)
def get_dataset_num_buffers(dataset_handle: int, /) -> int:
    return len(dataset(dataset_handle).buffers)


@call("aclmdlGetDatasetBuffer", 0, bare=True)
def get_dataset_buffer(dataset_handle: int, index: int, /) -> int:
    found = dataset(dataset_handle)
    if not 0 <= index < len(found.buffers):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"The dataset has {len(found.buffers)} buffers, none is {index}.")
    return found.buffers[index][0]


@call("aclmdlSetDatasetTensorDesc", 0)
def set_dataset_tensor_desc(dataset_handle: int, tensor_desc: int, index: int, /) -> int:
    """Say the shape of input ``index``; (the dataset, ret)."""
    found = dataset(dataset_handle)
    if not 0 <= index < len(found.buffers):
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"The dataset has {len(found.buffers)} buffers, none is {index}.")
    desc(tensor_desc)
    found.descs[index] = tensor_desc
    found.own.discard(index)
    return dataset_handle


@call("aclmdlGetDatasetTensorDesc", 0, bare=True)
def get_dataset_tensor_desc(dataset_handle: int, index: int, /) -> int:
    """Description with the real shape of output ``index``, once the model has run."""
    found = dataset(dataset_handle)
    if index not in found.descs:
        raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"Buffer {index} of the dataset has no description yet.")
    return found.descs[index]
