"""Resizing against ONNX Runtime's Resize, areas and borders against numpy and hand values."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from asc_devkit.npu.media import formats
from asc_devkit.npu.media.formats import MediaError
from asc_devkit.npu.media.planes import Planes
from asc_devkit.npu.media.resize import resize
from asc_devkit.npu.media.vision import Area, Picture, histogram, make_border, move

OLD, NEW = formats.family("310P"), formats.family("910B")


def reference(array: np.ndarray, height: int, width: int, mode: str, transform: str) -> np.ndarray:
    """Resize of another implementation, in float32."""
    extra = {"nearest_mode": "floor"} if mode == "nearest" else {}
    node = helper.make_node(
        "Resize", ["x", "", "", "s"], ["y"], mode=mode, coordinate_transformation_mode=transform, **extra
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, *array.shape])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, height, width])],
        [helper.make_tensor("s", TensorProto.INT64, [4], [1, 1, height, width])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": array[None, None].astype(np.float32)})[0][0, 0]


@pytest.mark.parametrize(("algorithm", "mode", "transform"), [
    (0, "linear", "half_pixel"), (1, "linear", "half_pixel"), (2, "nearest", "asymmetric"),
    (3, "linear", "asymmetric"), (4, "nearest", "asymmetric"),
])  # fmt: skip
@pytest.mark.parametrize(("height", "width"), [(31, 50), (96, 80), (17, 23), (64, 40), (13, 300)])
def test_resizing_is_what_onnx_defines(algorithm: int, mode: str, transform: str, height: int, width: int) -> None:
    array = np.random.default_rng(3).integers(0, 256, (48, 40), dtype=np.uint8)
    found = resize(Planes({"Y": array}), width, height, algorithm).values["Y"]
    wanted = reference(array, height, width, mode, transform)
    assert found.shape == (height, width)
    assert np.abs(found - wanted).max() <= (0.75 if mode == "linear" else 0)  # half a step, and weights of 1/2048


def test_doubling_by_hand() -> None:
    """[0, 100] to four: centres at -0.25, 0.25, 0.75, 1.25 give 0, 25, 75, 100."""
    wide = resize(Planes({"Y": np.array([[0, 100]], np.uint8)}), 4, 1, 1)
    assert wide.values["Y"].tolist() == [[0, 25, 75, 100]]


def test_chroma_is_resized_in_its_own_grid() -> None:
    picture = Planes({"Y": np.zeros((8, 12), np.uint8), "U": np.arange(24, dtype=np.uint8).reshape(4, 6),
                      "V": np.zeros((4, 6), np.uint8)}, (2, 2))  # fmt: skip
    small = resize(picture, 6, 4, 2)
    assert small.values["U"].tolist() == [[0, 2, 4], [12, 14, 16]]


@pytest.mark.parametrize(("width", "height"), [(2, 40), (40, 1000), (5000, 48)])
def test_ratios_outside_the_hardwares_are_refused(width: int, height: int) -> None:
    with pytest.raises(MediaError, match="1/32 to 16"):
        resize(Planes({"Y": np.zeros((80, 80) if width == 2 else (48, 40), np.uint8)}), width, height)


def picture(value: int, width: int, height: int, seed: int = 0, fill: int | None = None) -> Picture:
    fmt = formats.of(value)
    ws, hs = formats.strides(fmt, width, height, OLD)
    rng = np.random.default_rng(seed)
    size = fmt.size(ws, hs)
    data = rng.integers(0, 256, size, dtype=np.uint8) if fill is None else np.full(size, fill, np.uint8)
    return Picture(data, fmt, width, height, ws, hs)


def test_cropping_takes_the_bytes_of_the_area() -> None:
    source, target = picture(1, 64, 48), picture(1, 32, 16, fill=0)
    move(source, Area(16, 47, 8, 23), target, target.area)
    got, have = target.planes(), source.planes()
    assert (got.values["Y"] == have.values["Y"][8:24, 16:48]).all()
    assert (got.values["U"] == have.values["U"][4:12, 8:24]).all()


def test_pasting_leaves_the_rest_alone() -> None:
    source, target = picture(12, 64, 48), picture(12, 64, 48, fill=9)
    move(source, source.area, target, Area(16, 47, 8, 31), algorithm=2)
    red = target.planes().values["R"]
    assert (red[8:32, 16:48] == source.planes().values["R"][::2, ::2]).all()
    inside = np.zeros_like(red, bool)
    inside[8:32, 16:48] = True
    assert (red[~inside] == 9).all()


def test_moving_converts_colours() -> None:
    source, target = picture(1, 32, 16, fill=128), picture(13, 32, 16, fill=0)
    source.data[: source.width_stride * source.height_stride] = 77
    move(source, source.area, target, target.area)
    assert {n: set(p.reshape(-1).tolist()) for n, p in target.planes().values.items()} == {n: {77} for n in "BGR"}


@pytest.mark.parametrize(
    ("area", "paste", "said"),
    [
        (Area(1, 32, 0, 15), False, "even"),
        (Area(0, 32, 0, 15), False, "even"),
        (Area(0, 31, 0, 16), False, "even"),
        (Area(0, 31, 0, 3), False, "outside"),
        (Area(0, 99, 0, 15), False, "does not lie"),
        (Area(20, 10, 0, 15), False, "does not lie"),
        (Area(8, 39, 0, 15), True, "multiple of 16"),
    ],
)
def test_areas_obey_the_chips_rules(area: Area, paste: bool, said: str) -> None:
    with pytest.raises(MediaError, match=said):
        area.check(64, 48, OLD, paste)


def test_newer_chips_take_any_offset() -> None:
    Area(1, 32, 1, 16).check(64, 48, NEW, paste=True)


@pytest.mark.parametrize(("kind", "mode"), [(0, "constant"), (1, "edge"), (2, "symmetric"), (3, "reflect")])
def test_borders(kind: int, mode: str) -> None:
    source, target = picture(12, 20, 12), picture(12, 24, 16, fill=0)
    make_border(source, target, (2, 2, 2, 2), kind, (5, 6, 7))
    for name, value in zip("RGB", (5, 6, 7), strict=True):
        extra = {"constant_values": value} if kind == 0 else {}
        assert (target.planes().values[name] == np.pad(source.planes().values[name], 2, mode=mode, **extra)).all()
    with pytest.raises(MediaError, match="is not"):
        make_border(source, target, (1, 2, 2, 2), kind, (0,))
    with pytest.raises(MediaError, match="border kind"):
        make_border(source, target, (2, 2, 2, 2), 9, (0,))


def test_histograms_count_each_value() -> None:
    source = picture(12, 20, 12)
    counts = histogram(source)
    assert [c.sum() for c in counts] == [240] * 3
    assert (counts[1] == np.histogram(source.planes().values["G"], bins=256, range=(0, 256))[0]).all()
