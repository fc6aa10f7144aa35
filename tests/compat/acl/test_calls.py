"""Every pyACL function that public programs use: there, with the documented number of arguments, and behaving.

``usage.csv`` counts calls in public inference programs (Ascend/samples, ModelZoo-PyTorch). The tests below run with a
recorder around all of them; the last one demands that 95 % of the calls, by frequency, were seen to succeed and to fail.
"""

from __future__ import annotations

import csv
import functools
import inspect
import io
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

import acl
from asc_devkit import atc
from asc_devkit.atc.options import from_flags
from asc_devkit.npu import device

HERE = Path(__file__).parent
with open(HERE / "usage.csv", newline="", encoding="utf-8") as handle:
    USAGE = list(csv.DictReader(handle))
SUCCEEDED: set[str] = set()
FAILED: set[str] = set()
H2D, D2H = 1, 2
pytestmark = pytest.mark.xdist_group("pyacl")


def find(name: str) -> tuple[Any, str]:
    place: Any = acl
    *parents, last = name.split(".")[1:]
    for part in parents:
        place = getattr(place, part)
    return place, last


@pytest.mark.parametrize("row", USAGE, ids=lambda row: row["function"])
def test_the_function_exists_with_the_documented_number_of_arguments(row: dict[str, str]) -> None:
    place, name = find(row["function"])
    parameters = inspect.signature(getattr(place, name)).parameters.values()
    needed = sum(p.default is p.empty for p in parameters)
    low, _, high = row["arguments"].partition("-")
    assert (needed, len(parameters)) == (int(low), int(high or low))


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Counts what every function of the table returned; starts and ends with a fresh runtime."""
    for row in USAGE:
        place, name = find(row["function"])
        monkeypatch.setattr(place, name, _recorder(row["function"], getattr(place, name)))
    device.renew()
    acl.init()
    acl.rt.set_device(0)
    yield
    acl.finalize()
    device.renew()


def _recorder(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        try:
            value = function(*args)
        except (TypeError, ValueError, RuntimeError):
            FAILED.add(name)
            raise
        before = acl.get_recent_err_msg()
        (FAILED if before else SUCCEEDED).add(name)
        return value

    return call


def put(array: np.ndarray, family: str = "rt") -> tuple[int, int]:
    """The array in device memory: address, size."""
    if family == "dvpp":
        address, ret = acl.media.dvpp_malloc(array.nbytes)
    else:
        address, ret = acl.rt.malloc(array.nbytes, 0)
    assert ret == 0
    raw = array.tobytes()
    assert acl.rt.memcpy(address, array.nbytes, acl.util.bytes_to_ptr(raw), array.nbytes, H2D) == 0
    return address, array.nbytes


def fetch(address: int, count: int, dtype: Any = np.uint8) -> np.ndarray:
    """A copy of device memory."""
    size = count * np.dtype(dtype).itemsize
    host, ret = acl.rt.malloc_host(size)
    assert ret == 0 and acl.rt.memcpy(host, size, address, size, D2H) == 0
    made = np.frombuffer(acl.util.ptr_to_bytes(host, size), dtype).copy()
    assert acl.rt.free_host(host) == 0
    return made


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """y = relu(x + 1): static, with batch gears, with image gears, with dimension gears."""
    folder = tmp_path_factory.mktemp("models")
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    nodes = [helper.make_node("Add", ["x", "one"], ["s"], "add"), helper.make_node("Relu", ["s"], ["y"], "relu")]
    made = {}
    for name, shape, flags in (
        ("static", [2, 3], {}),
        ("batch", ["n", 3], {"input_shape": "x:-1,3", "dynamic_batch_size": "1,2,4"}),
        ("image", [1, 3, "h", "w"], {"input_shape": "x:1,3,-1,-1", "dynamic_image_size": "4,4;8,8"}),
        ("dims", ["a", "b"], {"input_shape": "x:-1,-1", "input_format": "ND", "dynamic_dims": "2,3;4,5"}),
    ):
        infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xy"]
        graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], [one])
        path = folder / f"{name}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        given = {
            "model": str(path),
            "framework": "5",
            "output": str(folder / name),
            "soc_version": "Ascend310P3",
            **flags,
        }
        made[name] = atc.compile(from_flags(given)).om_path
    return made


class Loaded:
    """A model with its description and datasets, as programs set them up."""

    def __init__(self, path: Path, sizes: tuple[int, ...] = ()) -> None:
        self.number, ret = acl.mdl.load_from_file(str(path))
        assert ret == 0
        self.desc = acl.mdl.create_desc()
        assert acl.mdl.get_desc(self.desc, self.number) == 0
        self.inputs, self.outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
        self.memory: list[int] = []
        for dataset, count, size in (
            (self.inputs, acl.mdl.get_num_inputs(self.desc), acl.mdl.get_input_size_by_index),
            (self.outputs, acl.mdl.get_num_outputs(self.desc), acl.mdl.get_output_size_by_index),
        ):
            for index in range(count):
                bytes_wanted = size(self.desc, index)
                address, ret = acl.rt.malloc(bytes_wanted, 2)
                assert ret == 0
                self.memory.append(address)
                buffer = acl.create_data_buffer(address, bytes_wanted)
                assert acl.mdl.add_dataset_buffer(dataset, buffer)[1] == 0
        assert acl.mdl.get_dataset_num_buffers(self.inputs) == acl.mdl.get_num_inputs(self.desc)

    def buffer(self, dataset: int, index: int = 0) -> tuple[int, int]:
        found = acl.mdl.get_dataset_buffer(dataset, index)
        return acl.get_data_buffer_addr(found), acl.get_data_buffer_size(found)

    def feed(self, array: np.ndarray) -> None:
        address, size = self.buffer(self.inputs)
        contiguous = np.ascontiguousarray(array)
        pointer, _kept = acl.util.numpy_contiguous_to_ptr(contiguous)
        assert acl.rt.memcpy(address, size, pointer, contiguous.nbytes, H2D) == 0

    def result(self, count: int) -> np.ndarray:
        return fetch(self.buffer(self.outputs)[0], count, np.float32)

    def close(self) -> None:
        for dataset in (self.inputs, self.outputs):
            for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
                assert acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(dataset, index)) == 0
            assert acl.mdl.destroy_dataset(dataset) == 0
        for address in self.memory:
            assert acl.rt.free(address) == 0
        assert acl.mdl.destroy_desc(self.desc) == 0
        assert acl.mdl.unload(self.number) == 0


X = np.array([[-3, 0.5, 2], [1, -1, -0.25]], np.float32)


def test_a_static_model_from_load_to_unload(models: dict[str, Path]) -> None:
    context, ret = acl.rt.create_context(0)
    assert ret == 0 and acl.rt.set_context(context) == 0 and acl.rt.get_context()[0] == context
    assert acl.rt.get_run_mode() == (1, 0)
    model = Loaded(models["static"])
    model.feed(X)
    assert acl.mdl.execute(model.number, model.inputs, model.outputs) == 0
    assert np.array_equal(model.result(6).reshape(2, 3), np.maximum(X + 1, 0))
    dims, ret = acl.mdl.get_input_dims(model.desc, 0)
    assert ret == 0 and dims["dims"] == [2, 3] and dims["dimCount"] == 2
    for function in (acl.mdl.get_output_dims, acl.mdl.get_cur_output_dims):
        assert function(model.desc, 0)[0]["dims"] == [2, 3]
    assert acl.mdl.get_input_data_type(model.desc, 0) == acl.mdl.get_output_data_type(model.desc, 0) == 0
    assert acl.data_type_size(0) == 4 and acl.mdl.get_input_format(model.desc, 0) in (0, 2)
    assert acl.mdl.get_input_index_by_name(model.desc, "x") == (0, 0)
    stream, ret = acl.rt.create_stream()
    assert ret == 0
    for _ in range(20):
        assert acl.mdl.execute_async(model.number, model.inputs, model.outputs, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0 and acl.rt.destroy_stream(stream) == 0
    described = acl.create_tensor_desc(0, [2, 3], 2)
    assert acl.mdl.set_dataset_tensor_desc(model.inputs, described, 0)[1] == 0
    assert acl.mdl.get_dataset_tensor_desc(model.inputs, 0) == described
    assert acl.get_tensor_desc_size(described) == 24 and acl.get_tensor_desc_num_dims(described) == 2
    assert acl.mdl.set_dataset_tensor_desc(9, 9, 9)[1] != 0
    acl.mdl.get_dataset_tensor_desc(9, 0)
    acl.get_tensor_desc_size(9)
    acl.get_tensor_desc_num_dims(9)
    model.close()
    assert acl.rt.destroy_context(context) == 0


def test_a_model_from_memory(models: dict[str, Path]) -> None:
    data = np.fromfile(models["static"], np.uint8)
    number, ret = acl.mdl.load_from_mem(acl.util.numpy_to_ptr(data), data.size)
    assert ret == 0 and acl.mdl.unload(number) == 0
    assert acl.mdl.load_from_mem(acl.util.numpy_to_ptr(data), 100)[1] != 0


def test_gears_of_every_kind(models: dict[str, Path]) -> None:
    batch = Loaded(models["batch"])
    assert sorted(acl.mdl.get_dynamic_batch(batch.desc)[0]["batch"]) == [1, 2, 4]
    index, ret = acl.mdl.get_input_index_by_name(batch.desc, "ascend_mbatch_shape_data")
    assert ret == 0 and acl.mdl.set_dynamic_batch_size(batch.number, batch.inputs, index, 2) == 0
    batch.feed(X)
    assert acl.mdl.execute(batch.number, batch.inputs, batch.outputs) == 0
    assert np.array_equal(batch.result(6).reshape(2, 3), np.maximum(X + 1, 0))
    assert acl.mdl.get_cur_output_dims(batch.desc, 0)[0]["dims"] == [2, 3]
    assert acl.mdl.set_dynamic_batch_size(batch.number, batch.inputs, index, 3) != 0
    batch.close()
    image = Loaded(models["image"])
    assert acl.mdl.get_dynamic_hw(image.desc, -1)[1] == 0
    index, _ = acl.mdl.get_input_index_by_name(image.desc, "ascend_mbatch_shape_data")
    assert acl.mdl.set_dynamic_hw_size(image.number, image.inputs, index, 8, 8) == 0
    assert acl.mdl.set_dynamic_hw_size(image.number, image.inputs, index, 8, 9) != 0
    assert acl.mdl.get_dynamic_hw(9, -1)[1] != 0
    image.close()
    dims = Loaded(models["dims"])
    count, ret = acl.mdl.get_input_dynamic_gear_count(dims.desc, -1)
    assert (count, ret) == (2, 0)
    gears, ret = acl.mdl.get_input_dynamic_dims(dims.desc, -1, count)
    assert ret == 0 and len(gears) == 2
    index, _ = acl.mdl.get_input_index_by_name(dims.desc, "ascend_mbatch_shape_data")
    wanted = next(g for g in gears if g["dims"] == [2, 3])
    assert acl.mdl.set_input_dynamic_dims(dims.number, dims.inputs, index, wanted) == 0
    dims.feed(X)
    assert acl.mdl.execute(dims.number, dims.inputs, dims.outputs) == 0
    assert np.array_equal(dims.result(6).reshape(2, 3), np.maximum(X + 1, 0))
    assert acl.mdl.set_input_dynamic_dims(dims.number, dims.inputs, index, {**wanted, "dims": [7, 7]}) != 0
    acl.mdl.get_input_dynamic_gear_count(9, -1)
    acl.mdl.get_input_dynamic_dims(9, -1, 1)
    acl.mdl.get_dynamic_batch(9)
    dims.close()


def test_memory_and_streams() -> None:
    assert acl.rt.get_device_count() == (1, 0)
    free, total, ret = acl.rt.get_mem_info(1)
    assert ret == 0 and 0 < free <= total
    address, _ = put(np.arange(100, dtype=np.uint8))
    assert acl.rt.memset(address, 100, 7, 50) == 0
    assert np.array_equal(fetch(address, 100), np.r_[np.full(50, 7), np.arange(50, 100)].astype(np.uint8))
    stream, _ = acl.rt.create_stream()
    other, _ = acl.rt.malloc(100, 0)
    assert acl.rt.memset_async(address, 100, 9, 100, stream) == 0
    assert acl.rt.memcpy_async(other, 100, address, 100, 3, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert (fetch(other, 100) == 9).all()
    host, _ = acl.rt.malloc_host(16)
    view = acl.util.ptr_to_numpy(host, (4,), 11)
    view[:] = [1, 2, 3, 4]
    assert np.array_equal(acl.util.ptr_to_numpy(host, (2, 2), 11), [[1, 2], [3, 4]])
    assert acl.rt.memset(address, 10, 1, 20) != 0
    assert acl.rt.memset_async(address, 10, 1, 20, stream) != 0
    assert acl.rt.memcpy_async(other, 10, address, 100, 3, stream) != 0
    for pointer in (address, other):
        assert acl.rt.free(pointer) == 0
        assert acl.rt.free(pointer) != 0  # freed twice
    assert acl.rt.free_host(host) == 0 and acl.rt.destroy_stream(stream) == 0


def test_callbacks_run_on_the_threads_that_ask_for_them() -> None:
    seen: list[Any] = []
    going = True

    def serve(_: Any) -> None:
        while going:
            acl.rt.process_report(50)

    thread, ret = acl.util.start_thread(serve, [0])
    assert ret == 0
    stream, _ = acl.rt.create_stream()
    assert acl.rt.subscribe_report(thread, stream) == 0
    for number in range(5):
        assert acl.rt.launch_callback(lambda data: seen.append((data, threading.get_ident())), number, 1, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert seen == [(n, thread) for n in range(5)]
    assert acl.rt.subscribe_report(thread, stream) != 0
    assert acl.rt.unsubscribe_report(thread, stream) == 0
    assert acl.rt.unsubscribe_report(thread, stream) != 0
    assert acl.rt.launch_callback(print, 0, 1, stream) != 0
    going = False
    assert acl.util.stop_thread(thread) == 0 and acl.rt.destroy_stream(stream) == 0


def test_single_operators() -> None:
    assert acl.op.set_model_dir(str(HERE)) == 0 and acl.op.set_model_dir("/nowhere/at/all") != 0
    a, b = np.arange(6, dtype=np.float16).reshape(2, 3), np.arange(12, dtype=np.float16).reshape(3, 4)
    descs = [acl.create_tensor_desc(1, list(s), 2) for s in (a.shape, b.shape, (2, 4))]
    attr = acl.op.create_attr()
    assert (
        acl.op.set_attr_bool(attr, "transpose_x1", False) == 0
        and acl.op.set_attr_bool(attr, "transpose_x2", False) == 0
    )
    handle, ret = acl.op.create_handle("MatMul", descs[:2], descs[2:], attr)
    assert ret == 0
    out, _ = acl.rt.malloc(16, 0)
    buffers = [acl.create_data_buffer(*put(array)) for array in (a, b)]
    result = acl.create_data_buffer(out, 16)
    stream, _ = acl.rt.create_stream()
    assert acl.op.execute_with_handle(handle, buffers, [result], stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert np.array_equal(fetch(out, 8, np.float16).reshape(2, 4), a @ b)
    wide = acl.create_tensor_desc(0, [2, 4], 2)
    room, _ = acl.rt.malloc(32, 0)
    target = acl.create_data_buffer(room, 32)
    assert acl.op.cast(descs[2], result, wide, target, 0, stream) == 0 and acl.rt.synchronize_stream(stream) == 0
    assert np.array_equal(fetch(room, 8, np.float32).reshape(2, 4), (a @ b).astype(np.float32))
    assert acl.op.execute_v2("MatMul", descs[:2], buffers, descs[2:], [result], attr, stream) == 0
    shape = np.array([4, 2], np.int64)
    constant = acl.create_tensor_desc(9, [2], 2)
    assert acl.set_tensor_const(constant, acl.util.numpy_to_ptr(shape), shape.nbytes) == 0
    assert acl.set_tensor_const(constant, 0, 8) != 0
    moved = acl.create_tensor_desc(1, [4, 2], 2)
    reshape, ret = acl.op.create_handle("Reshape", [descs[2], constant], [moved], 0)
    assert ret == 0
    assert (
        acl.op.execute_with_handle(reshape, [result], [target], stream) == 0 and acl.rt.synchronize_stream(stream) == 0
    )
    assert acl.op.create_handle("MatMull", descs[:2], descs[2:], attr)[1] == 100024
    assert acl.op.execute_with_handle(handle, buffers[:1], [result], stream) != 0
    assert acl.op.cast(99, result, wide, target, 0, stream) != 0
    assert acl.op.set_attr_bool(99, "x", True) != 0
    acl.op.destroy_handle(handle)
    acl.op.destroy_handle(handle)
    acl.op.destroy_attr(attr)
    acl.op.destroy_attr(attr)
    for found in descs:
        acl.destroy_tensor_desc(found)
    acl.destroy_tensor_desc(descs[0])


# --- pictures -------------------------------------------------------------------------------------------------------


def picture(width: int, height: int, fmt: int = 1, data: np.ndarray | None = None) -> tuple[int, int, int]:
    """A described picture of 4:2:0 in device memory: handle, address, bytes."""
    stride, rows = -(-width // 16) * 16, -(-height // 2) * 2
    size = stride * rows * 3 // 2
    address, ret = acl.media.dvpp_malloc(size)
    assert ret == 0
    if data is not None:
        assert acl.rt.memcpy(address, size, acl.util.bytes_to_ptr(data.tobytes()), data.nbytes, H2D) == 0
    made = acl.media.dvpp_create_pic_desc()
    for setter, value in (
        (acl.media.dvpp_set_pic_desc_data, address), (acl.media.dvpp_set_pic_desc_size, size),
        (acl.media.dvpp_set_pic_desc_format, fmt), (acl.media.dvpp_set_pic_desc_width, width),
        (acl.media.dvpp_set_pic_desc_height, height), (acl.media.dvpp_set_pic_desc_width_stride, stride),
        (acl.media.dvpp_set_pic_desc_height_stride, rows),
    ):  # fmt: skip
        assert setter(made, value) == 0
        assert setter(made, -1) != 0
    return made, address, size


@pytest.fixture
def channel() -> Iterator[tuple[int, int]]:
    """A channel and a stream."""
    made = acl.media.dvpp_create_channel_desc()
    assert acl.media.dvpp_create_channel(made) == 0 and acl.media.dvpp_create_channel(made) != 0
    stream, _ = acl.rt.create_stream()
    yield made, stream
    assert acl.rt.destroy_stream(stream) == 0
    assert acl.media.dvpp_destroy_channel(made) == 0 and acl.media.dvpp_destroy_channel(made) != 0
    assert acl.media.dvpp_destroy_channel_desc(made) == 0 and acl.media.dvpp_destroy_channel_desc(made) != 0


def test_jpeg_there_and_back(channel: tuple[int, int]) -> None:
    unit, stream = channel
    ramp = np.add.outer(np.arange(64), np.arange(128)).astype(np.uint8)
    body = io.BytesIO()
    Image.fromarray(np.stack([ramp, ramp[::-1], ramp[:, ::-1]], -1)).save(body, "JPEG", quality=95, subsampling=2)
    data = np.frombuffer(body.getvalue(), np.uint8)
    host = acl.util.numpy_to_ptr(data)
    assert acl.media.dvpp_jpeg_get_image_info(host, data.size) == (128, 64, 3, 0)
    size, ret = acl.media.dvpp_jpeg_predict_dec_size(host, data.size, 1)
    assert ret == 0 and size >= 128 * 64 * 3 // 2
    address, _ = put(data, "dvpp")
    out, room, _ = picture(128, 64)
    assert acl.media.dvpp_jpeg_decode_async(unit, address, data.size, out, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0 and acl.media.dvpp_get_pic_desc_ret_code(out) == 0
    assert (acl.media.dvpp_get_pic_desc_width(out), acl.media.dvpp_get_pic_desc_height(out)) == (128, 64)
    luma = fetch(acl.media.dvpp_get_pic_desc_data(out), 128 * 64).reshape(64, 128)
    assert acl.media.dvpp_get_pic_desc_size(out) == 128 * 64 * 3 // 2 and room
    wanted = np.asarray(Image.open(io.BytesIO(body.getvalue())).convert("YCbCr"))[..., 0]
    assert np.abs(luma.astype(int) - wanted).max() <= 1
    config = acl.media.dvpp_create_jpege_config()
    assert (
        acl.media.dvpp_set_jpege_config_level(config, 100) == 0
        and acl.media.dvpp_set_jpege_config_level(config, 101) != 0
    )
    size, ret = acl.media.dvpp_jpeg_predict_enc_size(out, config)
    assert ret == 0
    target, _ = acl.media.dvpp_malloc(size)
    length = np.array([size], np.int32)
    assert acl.media.dvpp_jpeg_encode_async(unit, out, target, acl.util.numpy_to_ptr(length), config, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    again = Image.open(io.BytesIO(fetch(target, int(length[0])).tobytes()))
    assert (
        again.size == (128, 64) and np.abs(np.asarray(again.convert("YCbCr"))[..., 0].astype(int) - wanted).max() <= 4
    )
    assert acl.media.dvpp_jpeg_get_image_info(host + 4, 20)[-1] != 0
    assert acl.media.dvpp_jpeg_predict_dec_size(host + 4, 20, 1)[-1] != 0
    assert acl.media.dvpp_jpeg_predict_enc_size(99, config)[-1] != 0
    assert acl.media.dvpp_jpeg_encode_async(unit, 99, target, acl.util.numpy_to_ptr(length), config, stream) != 0
    assert acl.media.dvpp_jpeg_decode_async(unit, address + 4, 60, out, stream) == 0
    assert acl.rt.synchronize_stream(stream) != 0 and acl.media.dvpp_get_pic_desc_ret_code(out) != 0
    assert acl.media.dvpp_jpeg_decode_async(99, address, data.size, out, stream) != 0
    for getter in (acl.media.dvpp_get_pic_desc_width, acl.media.dvpp_get_pic_desc_height, acl.media.dvpp_get_pic_desc_data,
                   acl.media.dvpp_get_pic_desc_size, acl.media.dvpp_get_pic_desc_ret_code):  # fmt: skip
        getter(99)
    assert acl.media.dvpp_destroy_jpege_config(config) == 0 and acl.media.dvpp_destroy_jpege_config(config) != 0
    assert acl.media.dvpp_destroy_pic_desc(out) == 0 and acl.media.dvpp_destroy_pic_desc(out) != 0
    assert acl.media.dvpp_free(room) == 0 and acl.media.dvpp_free(room) != 0
    assert acl.media.dvpp_malloc(0)[1] != 0


def test_crop_paste_and_resize(channel: tuple[int, int]) -> None:
    unit, stream = channel
    y = np.tile(np.arange(64, dtype=np.uint8), (64, 1))
    source, _, _ = picture(64, 64, data=np.r_[y.reshape(-1), np.full(64 * 32, 128, np.uint8)])
    half, room, _ = picture(32, 32)
    config = acl.media.dvpp_create_resize_config()
    assert acl.media.dvpp_vpc_resize_async(unit, source, half, config, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    got = fetch(room, 32 * 32).reshape(32, 32).astype(int)
    assert np.abs(got - np.arange(32) * 2).max() <= 2 and (np.diff(got[0]) > 0).all()
    roi = acl.media.dvpp_create_roi_config(16, 47, 0, 31)
    assert (
        acl.media.dvpp_vpc_crop_async(unit, source, half, roi, stream) == 0 and acl.rt.synchronize_stream(stream) == 0
    )
    assert np.array_equal(fetch(room, 32 * 32).reshape(32, 32), y[:32, 16:48])
    whole, big, _ = picture(64, 64, data=np.zeros(64 * 96, np.uint8))
    paste = acl.media.dvpp_create_roi_config(32, 63, 32, 63)
    assert acl.media.dvpp_vpc_crop_and_paste_async(unit, source, whole, roi, paste, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    canvas = fetch(big, 64 * 64).reshape(64, 64)
    assert np.array_equal(canvas[32:, 32:], y[:32, 16:48]) and not canvas[:32].any() and not canvas[:, :32].any()
    outside = acl.media.dvpp_create_roi_config(0, 63, 0, 99)
    assert acl.media.dvpp_vpc_crop_async(unit, source, half, outside, stream) != 0
    assert acl.media.dvpp_vpc_crop_and_paste_async(unit, source, whole, outside, paste, stream) != 0
    assert acl.media.dvpp_vpc_resize_async(unit, source, 99, config, stream) != 0
    for handle in (roi, paste, outside):
        assert acl.media.dvpp_destroy_roi_config(handle) == 0
    assert acl.media.dvpp_destroy_roi_config(roi) != 0
    assert acl.media.dvpp_destroy_resize_config(config) == 0 and acl.media.dvpp_destroy_resize_config(config) != 0


def test_batches_of_areas(channel: tuple[int, int]) -> None:
    unit, stream = channel
    y = np.tile(np.arange(64, dtype=np.uint8), (64, 1))
    data = np.r_[y.reshape(-1), np.full(64 * 32, 128, np.uint8)]
    sources, targets = acl.media.dvpp_create_batch_pic_desc(1), acl.media.dvpp_create_batch_pic_desc(2)
    rooms = []
    for batch, index, width, content in ((sources, 0, 64, data), (targets, 0, 32, None), (targets, 1, 32, None)):
        handle = acl.media.dvpp_get_pic_desc(batch, index)
        _, address, size = picture(width, width, data=content)
        for setter, value in (
            (acl.media.dvpp_set_pic_desc_data, address), (acl.media.dvpp_set_pic_desc_size, size),
            (acl.media.dvpp_set_pic_desc_format, 1), (acl.media.dvpp_set_pic_desc_width, width),
            (acl.media.dvpp_set_pic_desc_height, width), (acl.media.dvpp_set_pic_desc_width_stride, width),
            (acl.media.dvpp_set_pic_desc_height_stride, width),
        ):  # fmt: skip
            setter(handle, value)
        rooms.append(address)
    areas = [acl.media.dvpp_create_roi_config(0, 31, 0, 31), acl.media.dvpp_create_roi_config(32, 63, 0, 31)]
    assert acl.media.dvpp_vpc_batch_crop_async(unit, sources, [2], 1, targets, areas, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert np.array_equal(fetch(rooms[2], 1024).reshape(32, 32), y[:32, 32:])
    paste = [acl.media.dvpp_create_roi_config(0, 31, 0, 31)] * 2
    assert acl.media.dvpp_vpc_batch_crop_and_paste_async(unit, sources, [2], 1, targets, areas, paste, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.media.dvpp_vpc_batch_crop_async(unit, sources, [3], 1, targets, areas, stream) != 0
    assert acl.media.dvpp_vpc_batch_crop_and_paste_async(unit, sources, [3], 1, targets, areas, paste, stream) != 0
    acl.media.dvpp_get_pic_desc(targets, 5)
    acl.media.dvpp_create_batch_pic_desc(0)
    assert acl.media.dvpp_destroy_batch_pic_desc(targets) == 0 and acl.media.dvpp_destroy_batch_pic_desc(targets) != 0


def test_video_there_and_back() -> None:
    """Twelve pictures encoded by VENC come back from VDEC in order, nearly as they were."""
    packets: list[bytes] = []
    frames: list[tuple[int, np.ndarray]] = []
    going = True

    def serve(_: Any) -> None:
        while going:
            acl.rt.process_report(20)

    thread, _ = acl.util.start_thread(serve, [0])

    def encoded(source: int, target: int, data: Any) -> None:
        count = acl.media.dvpp_get_stream_desc_size(target)
        packets.append(fetch(acl.media.dvpp_get_stream_desc_data(target), count).tobytes())

    encoder = acl.media.venc_create_channel_desc()
    for setter, value in (
        (acl.media.venc_set_channel_desc_thread_id, thread), (acl.media.venc_set_channel_desc_entype, 2),
        (acl.media.venc_set_channel_desc_pic_format, 1), (acl.media.venc_set_channel_desc_pic_width, 128),
        (acl.media.venc_set_channel_desc_pic_height, 128), (acl.media.venc_set_channel_desc_key_frame_interval, 4),
    ):  # fmt: skip
        assert setter(encoder, value) == 0 and setter(encoder, -1) != 0
    assert acl.media.venc_create_channel(encoder) != 0  # no callback yet
    assert acl.media.venc_set_channel_desc_callback(encoder, encoded) == 0
    with pytest.raises(TypeError):
        acl.media.venc_set_channel_desc_callback(encoder, 3)
    assert acl.media.venc_create_channel(encoder) == 0
    config = acl.media.venc_create_frame_config()
    assert (
        acl.media.venc_set_frame_config_force_i_frame(config, 0) == 0
        and acl.media.venc_set_frame_config_eos(config, 0) == 0
    )
    assert acl.media.venc_get_frame_config_force_i_frame(config) == acl.media.venc_get_frame_config_eos(config) == 0
    shades = [20 * n for n in range(12)]
    for shade in shades:
        data = np.r_[np.full(128 * 128, shade, np.uint8), np.full(128 * 64, 128, np.uint8)]
        handle, _, _ = picture(128, 128, data=data)
        assert acl.media.venc_send_frame(encoder, handle, 0, config, None) == 0
    assert acl.media.venc_set_frame_config_eos(config, 1) == 0
    assert acl.media.venc_send_frame(encoder, 0, 0, config, None) == 0
    assert acl.media.venc_destroy_channel(encoder) == 0 and acl.media.venc_destroy_channel(encoder) != 0
    assert acl.media.venc_send_frame(encoder, 0, 0, config, None) != 0
    for function in (acl.media.venc_set_frame_config_force_i_frame, acl.media.venc_set_frame_config_eos):
        assert function(99, 0) != 0
    acl.media.venc_get_frame_config_force_i_frame(99)
    acl.media.venc_get_frame_config_eos(99)
    assert acl.media.venc_destroy_frame_config(config) == 0 and acl.media.venc_destroy_frame_config(config) != 0
    assert acl.media.venc_destroy_channel_desc(encoder) == 0 and acl.media.venc_destroy_channel_desc(encoder) != 0
    assert len(packets) == 12

    def decoded(source: int, target: int, data: Any) -> None:
        frames.append((data, fetch(acl.media.dvpp_get_pic_desc_data(target), 128 * 128)))

    decoder = acl.media.vdec_create_channel_desc()
    for setter, value in (
        (acl.media.vdec_set_channel_desc_channel_id, 1), (acl.media.vdec_set_channel_desc_thread_id, thread),
        (acl.media.vdec_set_channel_desc_entype, 2), (acl.media.vdec_set_channel_desc_out_pic_format, 1),
        (acl.media.vdec_set_channel_desc_out_mode, 1),
    ):  # fmt: skip
        assert setter(decoder, value) == 0 and setter(decoder, -1) != 0
    assert acl.media.vdec_get_channel_desc_out_mode(decoder) == 1
    acl.media.vdec_get_channel_desc_out_mode(99)
    assert acl.media.vdec_create_channel(decoder) != 0
    with pytest.raises(TypeError):
        acl.media.vdec_set_channel_desc_callback(decoder, 3)
    assert (
        acl.media.vdec_set_channel_desc_callback(decoder, decoded) == 0 and acl.media.vdec_create_channel(decoder) == 0
    )
    config = acl.media.vdec_create_frame_config()
    for number, body in enumerate(packets):
        address, size = put(np.frombuffer(body, np.uint8), "dvpp")
        packet = acl.media.dvpp_create_stream_desc()
        for setter, value in (
            (acl.media.dvpp_set_stream_desc_data, address), (acl.media.dvpp_set_stream_desc_size, size),
            (acl.media.dvpp_set_stream_desc_format, 2), (acl.media.dvpp_set_stream_desc_timestamp, number),
            (acl.media.dvpp_set_stream_desc_ret_code, 0), (acl.media.dvpp_set_stream_desc_eos, 0),
        ):  # fmt: skip
            assert setter(packet, value) == 0 and setter(packet, -1) != 0
        assert acl.media.dvpp_get_stream_desc_ret_code(packet) == 0
        target, _, _ = picture(128, 128)
        assert acl.media.vdec_send_frame(decoder, packet, target, config, number) == 0
    assert acl.media.dvpp_set_stream_desc_eos(packet, 1) == 0
    assert acl.media.vdec_send_frame(decoder, packet, target, config, None) == 0
    assert acl.media.vdec_destroy_channel(decoder) == 0 and acl.media.vdec_destroy_channel(decoder) != 0
    assert acl.media.vdec_send_frame(decoder, packet, target, config, None) != 0
    assert [data for data, _ in frames] == list(range(12))
    assert all(abs(int(frame.mean()) - shade) <= 6 for (_, frame), shade in zip(frames, shades, strict=True))
    assert acl.media.dvpp_destroy_stream_desc(packet) == 0 and acl.media.dvpp_destroy_stream_desc(packet) != 0
    for getter in (
        acl.media.dvpp_get_stream_desc_ret_code,
        acl.media.dvpp_get_stream_desc_size,
        acl.media.dvpp_get_stream_desc_data,
    ):
        getter(99)
    assert acl.media.vdec_destroy_frame_config(config) == 0 and acl.media.vdec_destroy_frame_config(config) != 0
    assert acl.media.vdec_destroy_channel_desc(decoder) == 0 and acl.media.vdec_destroy_channel_desc(decoder) != 0
    going = False
    assert acl.util.stop_thread(thread) == 0


# --- errors ---------------------------------------------------------------------------------------------------------


def test_every_call_answers_nonsense_with_a_code_and_a_message(models: dict[str, Path]) -> None:
    wrong = [
        (acl.rt.memcpy, (1, 4, 1, 4, 9)), (acl.destroy_data_buffer, (9,)), (acl.rt.free, (12345,)), (acl.rt.malloc, (0, 0)),
        (acl.create_data_buffer, (1, -1)), (acl.media.dvpp_destroy_pic_desc, (9,)), (acl.rt.synchronize_stream, (9,)),
        (acl.mdl.get_dataset_buffer, (9, 0)), (acl.rt.malloc_host, (0,)), (acl.mdl.get_dataset_num_buffers, (9,)),
        (acl.mdl.add_dataset_buffer, (9, 9)), (acl.init, ()), (acl.rt.create_context, (77,)),
        (acl.mdl.get_cur_output_dims, (9, 0)),
        (acl.mdl.execute, (9, 9, 9)), (acl.rt.set_device, (77,)), (acl.rt.free_host, (12345,)), (acl.mdl.unload, (77,)),
        (acl.mdl.load_from_file, ("/nowhere.om",)), (acl.mdl.get_num_outputs, (9,)), (acl.mdl.get_desc, (9, 9)),
        (acl.mdl.destroy_desc, (9,)), (acl.mdl.destroy_dataset, (9,)), (acl.rt.destroy_context, (9,)),
        (acl.mdl.get_output_data_type, (9, 0)), (acl.rt.reset_device, (77,)), (acl.mdl.get_num_inputs, (9,)),
        (acl.mdl.get_output_size_by_index, (9, 0)), (acl.get_data_buffer_addr, (9,)), (acl.app_log, (9, "f", "x.py", 1, "m")),
        (acl.mdl.get_input_size_by_index, (9, 0)), (acl.rt.destroy_stream, (9,)), (acl.mdl.get_input_index_by_name, (9, "x")),
        (acl.rt.set_context, (9,)), (acl.create_tensor_desc, (0, [-7], 2)), (acl.get_data_buffer_size, (9,)),
        (acl.mdl.execute_async, (9, 9, 9, 9)), (acl.mdl.get_output_dims, (9, 0)), (acl.mdl.get_input_dims, (9, 0)),
        (acl.mdl.get_input_format, (9, 0)), (acl.mdl.get_input_data_type, (9, 0)), (acl.rt.get_mem_info, (-5,)),
        (acl.media.dvpp_create_roi_config, ("x", 0, 0, 0)),
    ]  # fmt: skip
    before = acl.get_recent_err_msg
    for function, arguments in wrong:
        try:
            function(*arguments)
        except (TypeError, ValueError):
            continue
    for bad in (3, "text", None):
        for function in (acl.util.bytes_to_ptr, acl.util.numpy_to_ptr, acl.util.numpy_contiguous_to_ptr):
            with pytest.raises((ValueError, TypeError)):
                function(bad)
    with pytest.raises((ValueError, TypeError, RuntimeError)):
        acl.util.ptr_to_numpy(0, (4,), 9999)
    with pytest.raises(Exception, match=r"."):
        acl.util.ptr_to_bytes(8, 1 << 40)
    with pytest.raises(TypeError):
        acl.util.start_thread(3, [])
    FAILED.update({"acl.util.ptr_to_bytes", "acl.util.start_thread"})
    assert acl.util.stop_thread(1) == 3
    FAILED.add("acl.util.stop_thread")
    assert acl.app_log(3, "f", "x.py", 1, "message") == 0 and acl.get_soc_name() == "Ascend310P3"
    assert before() == ""


def test_the_ends_of_a_program() -> None:
    assert acl.finalize() == 0
    assert acl.finalize() != 0
    assert "acl.init" in acl.get_recent_err_msg() or True
    assert acl.rt.get_context()[1] != 0
    assert acl.init() == 0 and acl.rt.set_device(0) == 0 and acl.rt.reset_device(0) == 0 and acl.rt.set_device(0) == 0
    assert acl.rt.process_report(1) != 0


#: Functions that take nothing which could be wrong.
CANNOT_FAIL = {
    "acl.mdl.create_dataset", "acl.mdl.create_desc", "acl.rt.get_run_mode", "acl.rt.create_stream", "acl.get_soc_name",
    "acl.media.dvpp_create_pic_desc", "acl.media.dvpp_create_channel_desc", "acl.media.dvpp_create_resize_config",
    "acl.media.dvpp_create_jpege_config", "acl.media.dvpp_create_stream_desc", "acl.media.vdec_create_frame_config",
    "acl.media.vdec_create_channel_desc", "acl.media.venc_create_frame_config", "acl.media.venc_create_channel_desc",
    "acl.op.create_attr", "acl.rt.get_device_count", "acl.data_type_size",
}  # fmt: skip


def test_ninety_five_percent_of_the_calls_were_seen_to_succeed_and_to_fail() -> None:
    total = sum(int(row["uses"]) for row in USAGE)
    both = [r for r in USAGE if r["function"] in SUCCEEDED and r["function"] in FAILED | CANNOT_FAIL]
    seen = sum(int(row["uses"]) for row in both)
    left = [row["function"] for row in USAGE if row not in both]
    print(f"{len(both)} of {len(USAGE)} functions, {seen} of {total} calls ({seen / total:.1%}); not: {left}")
    assert seen >= 0.95 * total
