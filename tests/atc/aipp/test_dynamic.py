"""Dynamic AIPP: parameters that come with each run do what the same static configuration does."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asc_devkit import atc, npu, om, perf, soc
from asc_devkit.atc.options import from_flags
from asc_devkit.errors import AscError
from asc_devkit.npu.preprocessing import AippSession
from tests.atc.aipp.compiled import model, nv12, preprocessed
from tests.cli.shell import asc

OPEN: Any = ("n", 3, "h", "w")
JPEG: Any = {"matrix": (256, 0, 359, 256, -88, -183, 256, 454, 0), "input_bias": (0, 128, 128)}


def converted(folder: Path, *shapes: Any, size: int = 4096, config: str = "", **flags: str) -> atc.Result:
    config = config or " ".join(
        f"aipp_op {{ aipp_mode: dynamic related_input_rank: {i} max_src_image_size: {size} }}"
        for i in range(len(shapes))
    )
    (folder / "dynamic.cfg").write_text(config, encoding="utf-8")
    given = {
        "model": str(model(folder / "dynamic.onnx", *shapes)),
        "framework": "5",
        "output": str(folder / "dynamic"),
        "soc_version": "Ascend310P3",
        "insert_op_conf": str(folder / "dynamic.cfg"),
        **flags,
    }
    return atc.compile(from_flags(given))


def loaded(folder: Path, *shapes: Any, **more: Any) -> AippSession:
    session = npu.load(converted(folder, *shapes, **more).om_path, threads=1, cache=False)
    assert isinstance(session, AippSession)
    return session


def _coded(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


def test_the_model_gets_the_documented_inputs(tmp_path: Path) -> None:
    """The manual: pictures up to max_src_image_size bytes, and sizeof(head) + batch * sizeof(picture) = 64 + 2 * 96."""
    pictures, parameters = om.read(converted(tmp_path, (2, 3, 4, 6), size=1000).om_path).inputs
    assert (pictures.name, pictures.dtype, pictures.shape, pictures.size) == ("x", "uint8", (2, -1, -1, -1), 1000)
    assert (parameters.name, parameters.dtype, parameters.size) == ("ascend_dynamic_aipp_data", "uint8", 256)


def test_the_bytes_lie_where_the_manual_has_them() -> None:
    """Offsets counted by hand in the manual's two structures."""
    picture = npu.PictureParameters(True, 1, 2, 30, 40, True, 5, 6, 7, 8, (9, 10, 11, 12), (0.5, 0, 0, 0), (1, 2, 3, 4))
    p = npu.AippParameters(
        "XRGB8888_U8", 640, 480, True, True, True, tuple(range(-4, 5)), (1, 2, 3), (4, 5, 6), [picture]
    )
    raw = p.pack().tobytes()
    assert len(raw) == 160
    assert raw[:5] == bytes([2, 1, 1, 1, 1])  # format, csc, rbuv, ax, count
    assert struct.unpack_from("<2i", raw, 8) == (640, 480)
    assert struct.unpack_from("<9h", raw, 16) == tuple(range(-4, 5))
    assert raw[40:46] == bytes([1, 2, 3, 4, 5, 6])  # output, then input bias
    assert raw[64:68] == bytes([1, 0, 1, 0])  # crop, resize, padding, rotation
    assert struct.unpack_from("<4i", raw, 64 + 8) == (1, 2, 30, 40)
    assert struct.unpack_from("<4i", raw, 64 + 40) == (7, 8, 5, 6)  # top, bottom, left, right
    assert struct.unpack_from("<4h", raw, 64 + 56) == (9, 10, 11, 12)
    assert struct.unpack_from("<4e", raw, 64 + 64) == (0.5, 0, 0, 0)
    assert struct.unpack_from("<4e", raw, 64 + 72) == (1, 2, 3, 4)
    assert npu.AippParameters.unpack(raw) == p


def test_a_hand_worked_picture(tmp_path: Path) -> None:
    """JPEG colours of Y 100, U 90, V 200 are R 201, G 62, B 33 (worked out in test_steps); then (x - 1 - 0.5) * 2."""
    session = loaded(tmp_path, (1, 3, 2, 4))
    shift = npu.PictureParameters(mean_chn=(1, 1, 1, 0), min_chn=(0.5,) * 4, var_reci_chn=(2.0,) * 4)
    session.set_aipp(npu.AippParameters("YUV420SP_U8", 4, 2, csc_switch=True, **JPEG, pictures=[shift]))
    (y,) = session.run({"x": nv12(np.full((2, 4, 3), (100, 90, 200), np.uint8))}).values()
    assert (-y)[0, :, 1, 3].tolist() == [399, 121, 63]


@pytest.mark.parametrize(
    ("fields", "parameters", "pictures"),
    [
        ("input_format: RGB888_U8", npu.AippParameters("RGB888_U8", 6, 4), _coded(1, 4, 6, 3)),
        (
            "input_format: XRGB8888_U8 ax_swap_switch: true rbuv_swap_switch: true mean_chn_1: 7",
            npu.AippParameters(
                "XRGB8888_U8", 6, 4, True, True, pictures=[npu.PictureParameters(mean_chn=(0, 7, 0, 0))]
            ),
            _coded(1, 4, 6, 4),
        ),
        (
            """input_format: YUV420SP_U8 src_image_size_w: 8 src_image_size_h: 6 crop: true load_start_pos_w: 2
               crop_size_w: 5 crop_size_h: 3 padding: true left_padding_size: 1 top_padding_size: 1 min_chn_0: 0.5
               rbuv_swap_switch: true csc_switch: true""",
            npu.AippParameters(
                "YUV420SP_U8", 8, 6, True, False, True, (298, 516, 0, 298, -100, -208, 298, 0, 409), (0, 0, 0),
                (16, 128, 128),
                [npu.PictureParameters(True, 2, 0, 5, 3, True, 1, 0, 1, 0, min_chn=(0.5, 0, 0, 0))],
            ),
            _coded(1, 9, 8, 1),
        ),
    ],
)  # fmt: skip
def test_it_computes_what_static_aipp_computes(
    tmp_path: Path, fields: str, parameters: npu.AippParameters, pictures: np.ndarray[Any, Any]
) -> None:
    static = preprocessed(tmp_path, fields, pictures, (1, 3, 4, 6))
    session = loaded(tmp_path, (1, 3, 4, 6))
    (by_call,) = (session.set_aipp(parameters), session.run({"x": pictures}))[1].values()
    (by_bytes,) = session.run({"x": pictures, "ascend_dynamic_aipp_data": parameters.pack(1)}).values()
    assert (-by_call == static).all() and (by_bytes == by_call).all()


def test_each_picture_of_a_batch_has_its_own_crop(tmp_path: Path) -> None:
    session = loaded(tmp_path, (2, 3, 2, 2))
    crops = [npu.PictureParameters(True, left, 0, 2, 2) for left in (0, 3)]
    session.set_aipp(npu.AippParameters("RGB888_U8", 5, 4, pictures=crops))
    pictures = _coded(2, 4, 5, 3)
    (y,) = session.run({"x": pictures}).values()
    assert (-y[0] == pictures[0, :2, :2].transpose(2, 0, 1)).all()
    assert (-y[1] == pictures[1, :2, 3:].transpose(2, 0, 1)).all()


def test_a_buffer_of_the_largest_size_is_read_as_far_as_the_picture_goes(tmp_path: Path) -> None:
    session = loaded(tmp_path, (1, 3, 2, 2), size=100)
    session.set_aipp(npu.AippParameters("RGB888_U8", 2, 2))
    buffer = np.arange(100, dtype=np.uint8)
    (y,) = session.run({"x": buffer}).values()
    assert (-y[0] == buffer[:12].reshape(2, 2, 3).transpose(2, 0, 1)).all()


def test_two_inputs_have_parameters_of_their_own(tmp_path: Path) -> None:
    session = loaded(tmp_path, (1, 3, 2, 2), (1, 1, 2, 4))
    assert [t.name for t in session.inputs] == ["x", "x1", "ascend_dynamic_aipp_data", "ascend_dynamic_aipp_data_1"]
    session.set_aipp(npu.AippParameters("RGB888_U8", 2, 2), "x")
    session.set_aipp(npu.AippParameters("YUV400_U8", 4, 2), "ascend_dynamic_aipp_data_1")
    made = session.run({"x": np.full(12, 3, np.uint8), "x1": np.full(8, 4, np.uint8)})
    assert [float(v.max()) for v in made.values()] == [-3, -4]


def test_dumping_shows_what_aipp_made_and_changes_no_bit(tmp_path: Path) -> None:
    session = loaded(tmp_path, (1, 3, 4, 6))
    session.set_aipp(npu.AippParameters("RGB888_U8", 6, 4))
    pictures = _coded(1, 4, 6, 3)
    plain, (dumped, values) = session.run({"x": pictures}), session.run_with_values({"x": pictures}, ["aipp_x"])
    assert (plain["y_x"] == dumped["y_x"]).all()
    assert (values["aipp_x"] == pictures.transpose(0, 3, 1, 2)).all()


def test_gears_of_batches_and_of_sizes(tmp_path: Path) -> None:
    batches = loaded(tmp_path, OPEN, input_shape="x:-1,3,2,2", dynamic_batch_size="1,4", size=48)
    batches.set_aipp(npu.AippParameters("RGB888_U8", 2, 2))
    for n in (1, 4):
        (y,) = batches.run({"x": np.full((n, 2, 2, 3), 9, np.uint8)}).values()
        assert y.shape == (n, 3, 2, 2) and (y == -9).all()
    sizes = loaded(tmp_path, OPEN, input_shape="x:1,3,-1,-1", dynamic_image_size="2,2;4,6", size=72)
    for height, width in ((2, 2), (4, 6)):
        sizes.set_aipp(npu.AippParameters("RGB888_U8", width, height))
        (y,) = sizes.run({"x": np.full((1, height, width, 3), 9, np.uint8)}).values()
        assert y.shape == (1, 3, height, width) and (y == -9).all()


def test_static_aipp_together_with_gears(tmp_path: Path) -> None:
    config = "aipp_op { aipp_mode: static input_format: RGB888_U8 mean_chn_0: 1 }"
    for flags, shapes in (
        ({"input_shape": "x:-1,3,2,2", "dynamic_batch_size": "1,3"}, [(1, 2, 2, 3), (3, 2, 2, 3)]),
        ({"input_shape": "x:1,3,-1,-1", "dynamic_image_size": "2,2;4,6"}, [(1, 2, 2, 3), (1, 4, 6, 3)]),
    ):
        session = npu.load(converted(tmp_path, OPEN, config=config, **flags).om_path, threads=1, cache=False)
        for shape in shapes:
            (y,) = session.run({"x": np.full(shape, 9, np.uint8)}).values()
            assert y.shape == (shape[0], 3, *shape[1:3]) and y[0, :, 0, 0].tolist() == [-8, -9, -9]


def refused(
    session: AippSession, parameters: npu.AippParameters | None, pictures: np.ndarray[Any, Any]
) -> tuple[str, str]:
    with pytest.raises(AscError) as caught:
        if parameters is not None:
            session.set_aipp(parameters)
        session.run({"x": pictures})
    (problem,) = caught.value.problems
    return problem.code, problem.what


@pytest.mark.provokes("ASC4014", "ASC4015")
def test_mistakes_are_explained(tmp_path: Path) -> None:
    session = loaded(tmp_path, (1, 3, 2, 2), size=100)
    p, black = npu.AippParameters, np.zeros((1, 2, 2, 3), np.uint8)
    assert refused(session, None, black)[0] == "ASC4014"
    for parameters, pictures, code, text in (
        (p("BMP", 2, 2), black, "ASC4015", "input_format is BMP"),
        (p("RGB888_U8", 2, 2, matrix=(1,)), black, "ASC4015", "does not fit"),
        (p("RGB888_U8", 2, 2, matrix=(40000,) * 9), black, "ASC4015", "does not fit"),
        (p("RGB888_U8", 4, 2), black, "ASC4015", "AIPP makes 4 x 2 (width x height), the model takes 2 x 2"),
        (p("YUV400_U8", 2, 2), black[..., 0], "ASC4015", "has not 3 channels"),
        (p("RGB888_U8", 2, 2), black[:, :1], "ASC4012", "have 12"),
        (p("RGB888_U8", 2, 2), black.astype(np.int8), "ASC4012", "int8"),
        (
            p("RGB888_U8", 2, 2, pictures=[npu.PictureParameters(True, 1, 0, 2, 2)]),
            black,
            "ASC4015",
            "crop and padding do not lead to the size",
        ),
    ):
        found = refused(session, parameters, pictures)
        assert found[0] == code and text in found[1], found
    for raw in (b"", bytes(160), bytes([3, 0, 0, 0, 100]) + bytes(155)):
        with pytest.raises(AscError, match="ASC4015"):
            npu.AippParameters.unpack(raw)


def test_time_and_summary_of_such_models(tmp_path: Path) -> None:
    path = converted(tmp_path, (1, 3, 4, 6)).om_path
    assert perf.estimate(om.read(path).to_ir(), soc.resolve("Ascend310P3").soc).total_us > 0
    assert "ascend_dynamic_aipp_data" in asc("om", "show", str(path)).out


def test_asc_run_takes_the_parameters_from_a_static_configuration(tmp_path: Path) -> None:
    path = converted(tmp_path, (1, 3, 2, 2)).om_path
    assert asc("run", str(path)).code == 2
    (tmp_path / "run.cfg").write_text("aipp_op { aipp_mode: static input_format: RGB888_U8 mean_chn_0: 3 }")
    np.full(12, 10, np.uint8).tofile(tmp_path / "x.bin")
    got = asc("run", str(path), "--aipp", str(tmp_path / "run.cfg"), "-i", str(tmp_path / "x.bin"), "-o", str(tmp_path))
    assert got.code == 0, got
    assert np.load(tmp_path / "y_x.npy")[0, :, 0, 0].tolist() == [-7, -10, -10]
