"""InferSession as the tool's public manual describes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aclruntime
from ais_bench.infer.interface import InferSession, MemorySummary, MultiDeviceSession, Tensor
from asc_devkit import npu
from tests.models import REAL_MODELS, example_inputs
from tests.npu.build import compile_model

A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B = np.array([[10, 20, 30], [40, 50, 60]], np.float32)


def images_of(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_outputs_come_in_the_order_of_the_model(pair: Path) -> None:
    total, product = InferSession(0, str(pair)).infer([A, B])
    assert (total == A + B).all()
    assert (product == A * B).all()
    assert total.dtype == np.float32


def test_descriptions_tell_name_shape_type_format_and_bytes(pair: Path) -> None:
    session = InferSession(device_id=0, model_path=str(pair))
    a, b = session.get_inputs()
    assert (a.name, a.shape, a.datatype, a.size, a.realsize) == ("a", [2, 3], aclruntime.dtype.float32, 24, 24)
    assert str(a.datatype) == "dtype.float32"
    assert {0: np.float32}[a.datatype] is np.float32  # programs look types up by number
    assert b.format in (0, 2)
    assert [o.shape for o in session.get_outputs()] == [[2, 3], [2, 3]]


def test_a_real_model_gives_what_the_virtual_npu_gives(tmp_path: Path) -> None:
    model = REAL_MODELS["magika"]
    om = compile_model(model.path, tmp_path, input_shape=model.input_shape)
    feed = example_inputs("magika")
    got = InferSession(0, str(om)).infer(list(feed.values()))
    wanted = npu.load(om).run(feed)
    assert [(g == w).all() for g, w in zip(got, wanted.values(), strict=True)] == [True] * len(wanted)


def test_bytes_of_the_right_number_are_taken_as_they_lie(pair: Path) -> None:
    """The manual's own example feeds a float64 view of a bytearray."""
    session = InferSession(0, str(pair))
    raw = np.frombuffer(bytearray(session.get_inputs()[0].realsize))
    assert raw.dtype == np.float64
    total, _ = session.infer([raw, B])
    assert (total == B).all()
    turned = np.asfortranarray(A)  # not contiguous: the numbers count, not the memory
    assert (session.infer([turned, B])[0] == A + B).all()


@pytest.mark.parametrize(
    ("feeds", "code"),
    [
        ([A], "ASC4502"),
        pytest.param([A, B, B], "ASC4502", marks=pytest.mark.provokes("ASC4502")),
        ([A.astype(np.float64), B], "ASC4012"),
        ([A[:1], B], "ASC4012"),
        pytest.param(["text", B], "ASC4501", marks=pytest.mark.provokes("ASC4501")),
    ],
)
def test_what_does_not_fit_is_refused_as_a_runtime_error(pair: Path, feeds: list[object], code: str) -> None:
    with pytest.raises(RuntimeError, match=code):
        InferSession(0, str(pair)).infer(feeds)


def test_torch_tensors_and_numpy_scalars_are_fed(pair: Path, tmp_path: Path) -> None:
    class Torchlike:
        """Quacks like torch.Tensor as far as the interface asks."""

        dtype = "torch.float32"

        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def detach(self) -> Torchlike:
            return self

        def cpu(self) -> Torchlike:
            return self

        def numpy(self) -> np.ndarray:
            return self.array

    assert (InferSession(0, str(pair)).infer([Torchlike(A), B])[0] == A + B).all()


def test_batch_gears(batches: Path) -> None:
    session = InferSession(0, str(batches))
    assert session.get_inputs()[0].shape == [-1, 1, 4, 4]
    for n in (1, 4, 2):
        x = images_of(n, 1, 4, 4)
        assert (session.infer([x], mode="dymbatch")[0] == 2 * x).all()
        assert session.get_inputs()[0].realsize == x.nbytes
    with pytest.raises(RuntimeError, match="ASC4013"):
        session.infer([images_of(3, 1, 4, 4)], mode="dymbatch")


def test_image_gears_take_height_before_width(images: Path) -> None:
    session = InferSession(0, str(images))
    x = images_of(1, 1, 6, 4)
    assert (session.infer([x], "dymhw")[0] == 2 * x).all()
    session.set_dynamic_hw(4, 6)
    assert session.run([images_of(1, 1, 4, 6)], out_array=True)[0].shape == (1, 1, 4, 6)
    with pytest.raises(RuntimeError, match="ASC4013"):
        session.set_dynamic_hw(6, 6)


@pytest.mark.provokes("ASC4503", "ASC4506", "ASC4511")
def test_dimension_gears_and_shapes(dims: Path) -> None:
    session = InferSession(0, str(dims))
    x = images_of(2, 1, 8, 4)
    assert (session.infer([x], "dymdims")[0] == 2 * x).all()
    assert (session.infer([x], "dymshape", custom_sizes=[x.nbytes])[0] == 2 * x).all()
    with pytest.raises(RuntimeError, match="ASC4503"):
        session.infer([x], "dymshape", custom_sizes=x.nbytes - 1)
    assert (session.infer([x], "dymdims")[0] == 2 * x).all()  # the reservation is not carried over
    for text, code in (("y:1,1,4,4", "ASC4010"), ("x:1,one", "ASC4506"), ("", "ASC4506")):
        with pytest.raises(RuntimeError, match=code):
            session.set_dynamic_dims(text)
    with pytest.raises(RuntimeError, match="ASC4511"):
        session.infer([x], "dynamic")


@pytest.mark.provokes("ASC4510")
def test_pipeline_iteration_and_loop(pair: Path) -> None:
    session = InferSession(0, str(pair), loop=3)
    assert [(r[0] == A + b).all() for r, b in zip(session.infer_pipeline([[A, B], [A, A]]), (B, A), strict=True)]
    assert len(session.summary().exec_time_list) == 6
    session.reset_summaryinfo()
    assert session.sumary().exec_time_list == []
    total, _ = session.infer_iteration([A, B], in_out_list=[0, -1], iteration_times=4)
    assert (total == A + 4 * B).all()
    with pytest.raises(RuntimeError, match="ASC4510"):
        session.infer_iteration([A, B], in_out_list=[2, -1])


def test_times_are_milliseconds_and_pairs_at_once(pair: Path) -> None:
    session = InferSession(0, str(pair))
    session.infer([A, B])
    (entry,) = session.summary().exec_time_list
    assert np.mean(session.summary().exec_time_list) == pytest.approx(float(entry))
    start, end = entry
    assert end - start == pytest.approx(float(entry))
    assert 0 < entry < 10_000


@pytest.mark.provokes("ASC4504")
def test_device_tensors_must_be_brought_to_the_host(pair: Path) -> None:
    session = InferSession(0, str(pair))
    given = A.copy()
    tensor = session.create_tensor_from_arrays_to_device(given)
    given[:] = 0  # what the device holds is a copy
    outputs = session.infer([tensor, Tensor(B)], out_array=False)
    with pytest.raises(RuntimeError, match="ASC4504"):
        np.array(outputs[0])
    session.convert_tensors_to_host(outputs)
    assert (np.array(outputs[0]) == A + B).all()
    named = session.session.run(["product"], [tensor, Tensor(B)])
    named[0].to_host()
    assert (np.asarray(named[0]) == A * B).all()


def test_memory_summary_has_an_entry_for_each_copy(pair: Path) -> None:
    MemorySummary.reset()
    session = InferSession(0, str(pair))
    session.infer([A, B])
    session.infer([A, B])
    assert (len(MemorySummary.get_h2d_time_list()), len(MemorySummary.get_d2h_time_list())) == (2, 2)
    MemorySummary.reset()
    assert MemorySummary.get_h2d_time_list() == []


@pytest.mark.provokes("ASC4508", "ASC4509")
def test_freed_sessions_and_bad_files_are_refused(pair: Path, tmp_path: Path) -> None:
    session = InferSession(0, str(pair))
    session.free_resource()
    with pytest.raises(RuntimeError, match="ASC4509"):
        session.infer([A, B])
    (tmp_path / "bad.om").write_bytes(b"no model")
    for path in (tmp_path / "bad.om", tmp_path / "missing.om"):
        with pytest.raises(RuntimeError):
            InferSession(0, str(path))
    with pytest.raises(RuntimeError, match="107001"):
        InferSession(99, str(pair))
    with pytest.raises(RuntimeError, match="ASC4508"):
        InferSession(0, str(pair), loop=0)


def test_acl_json_switches_the_dump_on(pair: Path, tmp_path: Path) -> None:
    config = tmp_path / "acl.json"
    config.write_text(f'{{"dump": {{"dump_path": "{tmp_path / "dump"}", "dump_mode": "output"}}}}')
    InferSession(0, str(pair), acl_json_path=str(config)).infer([A, B])
    assert list((tmp_path / "dump").glob("*.npy"))
    config.write_text("[]")
    with pytest.raises(RuntimeError, match="E13001"):
        InferSession(0, str(pair), acl_json_path=str(config))


def test_the_lower_interface(pair: Path) -> None:
    options = aclruntime.session_options()
    options.loop = 2
    session = aclruntime.InferenceSession(str(pair), 0, options)
    tensors = [aclruntime.Tensor(A), aclruntime.Tensor(B)]
    for tensor in tensors:
        tensor.to_device(0)
    outputs = session.run([meta.name for meta in session.get_outputs()], tensors)
    outputs[1].to_host()
    assert (np.array(outputs[1]) == A * B).all()
    assert len(session.sumary().exec_time_list) == 2


@pytest.mark.provokes("ASC4505")
def test_an_output_that_does_not_exist_is_refused_with_those_that_do(pair: Path) -> None:
    session = aclruntime.InferenceSession(str(pair), 0, aclruntime.session_options())
    names = [meta.name for meta in session.get_outputs()]
    with pytest.raises(RuntimeError, match=f"ASC4505.*{names[0]}"):
        session.run(["nonsense"], [aclruntime.Tensor(A), aclruntime.Tensor(B)])


def test_several_devices_are_several_processes(pair: Path) -> None:
    session = MultiDeviceSession(str(pair))
    found = session.infer({0: [[A, B]], 1: [[B, B]]})
    assert (found[0][0][0] == A + B).all()
    assert (found[1][0][0] == B + B).all()
    assert {device: len(times) for device, times in session.summary().items()} == {0: 1, 1: 1}
