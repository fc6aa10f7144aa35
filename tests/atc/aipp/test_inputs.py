"""Which input gets AIPP, what the offline model says about it, and configurations that do not fit the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto

from asc_devkit import npu, om, ops
from asc_devkit.errors import AscError, Problem
from asc_devkit.ge.desc import GE_DOMAIN
from asc_devkit.npu.lower import lower
from tests.atc.aipp.compiled import JPEG, compile_with, nv12

TWO = ((1, 3, 4, 6), (1, 3, 2, 2))


def refused(folder: Path, fields: str, *shapes: tuple[int, ...], **more: object) -> list[Problem]:
    with pytest.raises(AscError) as caught:
        compile_with(folder, fields, *shapes, **more)  # type: ignore[arg-type]
    assert not (folder / "m.om").exists()
    return list(caught.value.problems)


@pytest.mark.parametrize(
    "which", ["related_input_rank: 1", 'related_input_name: "x1"', 'related_input_name: "x1" related_input_rank: 0']
)
def test_an_input_is_chosen_by_rank_or_by_name_which_outranks_it(tmp_path: Path, which: str) -> None:
    result = compile_with(tmp_path, f"input_format: RGB888_U8 {which}", *TWO)
    first, second = om.read(result.om_path).inputs
    assert (first.name, first.dtype, first.shape) == ("x", "float", (1, 3, 4, 6))
    assert (second.name, second.dtype, second.shape) == ("x1", "uint8", (1, 2, 2, 3))


def test_two_blocks_serve_two_inputs(tmp_path: Path) -> None:
    fields = "input_format: RGB888_U8 } aipp_op { aipp_mode: static input_format: XRGB8888_U8 related_input_rank: 1"
    session = npu.load(compile_with(tmp_path, fields, *TWO).om_path, threads=1, cache=False)
    assert [(t.name, t.shape, t.dtype) for t in session.inputs] == [
        ("x", (1, 4, 6, 3), np.uint8),
        ("x1", (1, 2, 2, 4), np.uint8),
    ]
    got = session.run({"x": np.full((1, 4, 6, 3), 3, np.uint8), "x1": np.full((1, 2, 2, 4), 4, np.uint8)})
    assert [float(v.min()) for v in got.values()] == [-3, -4]


@pytest.mark.parametrize(
    ("picture", "shape", "dims", "stored", "size"),
    [
        ("RGB888_U8", (2, 3, 4, 6), (2, 4, 6, 3), (2, 4, 6, 3), 144),
        ("XRGB8888_U8", (2, 3, 4, 6), (2, 4, 6, 3), (2, 4, 6, 4), 192),
        ("YUV420SP_U8", (2, 3, 4, 6), (2, 4, 6, 3), (2, 6, 6, 1), 72),
        ("YUV400_U8", (2, 1, 4, 6), (2, 4, 6, 1), (2, 4, 6, 1), 48),
    ],
)
def test_both_lists_of_dimensions_and_the_size_are_the_manuals(
    tmp_path: Path, picture: str, shape: tuple[int, ...], dims: tuple[int, ...], stored: tuple[int, ...], size: int
) -> None:
    """aclmdlGetInputDims tells the picture's, aclmdlGetInputDimsV2 the buffer's (H * 1.5 and C = 1 for YUV420SP)."""
    (info,) = om.read(compile_with(tmp_path, f"input_format: {picture}", shape).om_path).inputs
    assert (info.dtype, info.format, info.shape, info.dims_v2, info.size) == ("uint8", 1, dims, stored, size)


def test_dimensions_are_the_source_pictures_before_the_crop(tmp_path: Path) -> None:
    fields = "input_format: YUV420SP_U8 src_image_size_w: 8 src_image_size_h: 6 crop: true"
    (info,) = om.read(compile_with(tmp_path, fields, (1, 3, 4, 4)).om_path).inputs
    assert (info.shape, info.dims_v2, info.size) == ((1, 6, 8, 3), (1, 9, 8, 1), 72)


def test_the_whole_configuration_is_in_the_operator(tmp_path: Path) -> None:
    fields = f"""input_format: YUV420SP_U8 src_image_size_w: 8 src_image_size_h: 6 crop: true load_start_pos_w: 2
      crop_size_w: 4 crop_size_h: 4 padding: true top_padding_size: 1 padding_value: 0.5 mean_chn_1: 3 min_chn_2: 0.25
      var_reci_chn_0: 2 rbuv_swap_switch: true {JPEG}"""
    result = compile_with(tmp_path, fields, (1, 3, 5, 4))
    (node,) = [n for n in om.read(result.om_path).to_ir().graph if n.op_type == "Aipp"]
    got = {name: attribute.value for name, attribute in node.attributes.items()}
    assert got["input_format"] == "YUV420SP_U8"
    assert tuple(got["matrix"]) == (256, 0, 359, 256, -88, -183, 256, 454, 0)
    assert (tuple(got["mean_chn"]), tuple(got["min_chn"])) == ((0, 3, 0, 0), (0, 0, 0.25, 0))
    assert (got["load_start_pos_w"], got["crop_size_h"], got["top_padding_size"]) == (2, 4, 1)
    assert (got["padding_value"], got["rbuv_swap_switch"], got["csc_switch"]) == (0.5, 1, 1)


def test_aipp_hands_over_the_blocked_format_itself(tmp_path: Path) -> None:
    """The manual: what AIPP makes is stored as NC1HWC0."""
    result = compile_with(tmp_path, "input_format: RGB888_U8", (1, 3, 4, 6))
    graph = om.read(result.om_path).to_ir().graph
    assert [n.op_type for n in graph][:2] == ["Aipp", "Neg"]
    (node,) = [n for n in graph if n.op_type == "Aipp"]
    assert node.outputs[0].meta["ge.desc"].format == "NC1HWC0"
    assert node.outputs[0].meta["ge.desc"].storage_shape == (1, 1, 4, 6, 16)


def test_a_half_float_model_takes_pictures_too(tmp_path: Path) -> None:
    result = compile_with(tmp_path, "input_format: RGB888_U8", (1, 3, 2, 2), kind=TensorProto.FLOAT16)
    (value,) = npu.load(result.om_path, threads=1, cache=False).run([np.full((1, 2, 2, 3), 9, np.uint8)]).values()
    assert value.dtype == np.float16 and float(value.max()) == -9


RGB = "input_format: RGB888_U8"
MISFITS = [
    (f"{RGB} related_input_rank: 1", (1, 3, 4, 4), "is for input 1 (counted from 0), the model has 1"),
    (f'{RGB} related_input_name: "xx"', (1, 3, 4, 4), "for the input xx, which the model has not"),
    (f"{RGB} }} aipp_op {{ aipp_mode: static {RGB}", (1, 3, 4, 4), "names the input x again"),
    (RGB, (1, 1, 4, 4), "takes 1 channels; RGB888_U8 gives 3"),
    (RGB, (1, 3, 4), "AIPP makes four fixed dimensions"),
    (RGB, (1, 3, 4, 4097), "2 to 4096 wide"),
    (f"{RGB} src_image_size_w: 8 src_image_size_h: 8", (1, 3, 4, 4), "AIPP makes 8 x 8"),
    (
        f"{RGB} src_image_size_w: 6 src_image_size_h: 8 crop: true load_start_pos_w: 3",
        (1, 3, 4, 4),
        "passes src_image_size_w 6",
    ),
    (
        f"{RGB} src_image_size_w: 1079 src_image_size_h: 4 padding: true left_padding_size: 2",
        (1, 3, 4, 1081),
        "passes 1080",
    ),
    ("input_format: YUV400_U8", (1, 3, 4, 4), "takes 3 channels; YUV400_U8 gives 1"),
    ("input_format: YUV420SP_U8", (1, 3, 4, 5), "even width and height"),
]


@pytest.mark.parametrize(("fields", "shape", "word"), MISFITS)
def test_configurations_that_do_not_fit_the_model(
    tmp_path: Path, fields: str, shape: tuple[int, ...], word: str
) -> None:
    found = refused(tmp_path, fields, shape)
    assert {p.code for p in found} == {"E10052"}
    assert any(word in p.what for p in found), [p.what for p in found]


def test_wide_padding_is_fine_on_later_chips(tmp_path: Path) -> None:
    fields = "input_format: RGB888_U8 src_image_size_w: 1079 src_image_size_h: 4 padding: true left_padding_size: 2"
    compile_with(tmp_path, fields, (1, 3, 4, 1081), soc_version="Ascend910B1")


def test_a_byte_model_takes_no_padding_beyond_a_byte(tmp_path: Path) -> None:
    fields = "input_format: RGB888_U8 src_image_size_w: 2 src_image_size_h: 2 padding: true padding_value: 300"
    (problem,) = refused(tmp_path, fields, (1, 3, 2, 2), kind=TensorProto.UINT8)
    assert "the model takes bytes" in problem.what


def test_integers_that_are_no_bytes_are_refused(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, "input_format: RGB888_U8", (1, 3, 2, 2), kind=TensorProto.INT32)
    assert "AIPP makes fp16 or uint8" in problem.what


@pytest.mark.provokes("E10034")
def test_fp16_input_and_aipp_exclude_each_other(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, "input_format: RGB888_U8", *TWO, input_fp16_nodes="x1;x")
    assert problem.code == "E10034" and "(for example, x)" in problem.what
    compile_with(tmp_path, "input_format: RGB888_U8", *TWO, input_fp16_nodes="x1")


def test_dynamic_dims_and_aipp_exclude_each_other(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, "input_format: RGB888_U8", (1, 3, 4, 4), dynamic_dims="1;2")
    assert problem.code == "E10001" and set(problem.nodes) == {"--dynamic_dims", "--insert_op_conf"}


@pytest.mark.provokes("E10052")
def test_the_format_must_be_nchw(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, "input_format: RGB888_U8", (1, 3, 4, 4), input_format="ND")
    assert "NCHW" in problem.what


@pytest.mark.parametrize(
    "broken",
    [
        {"input_format": "RAW10"},
        {"src_image_size_h": 5},
        {"crop": 1, "crop_size_h": 1 << 40, "crop_size_w": 6},
        {"crop": 1, "crop_size_h": 4, "crop_size_w": 6, "load_start_pos_w": -1},
        {"padding": 1, "top_padding_size": 1 << 40},
        {"csc_switch": 1, "matrix": (1, 2, 3)},
        {"csc_switch": 1, "matrix": (1 << 40,) * 9},
        {"csc_switch": 1, "output_bias": ()},
        {"mean_chn": (1,)},
        {"matrix": "text", "csc_switch": 1},
    ],
)
def test_a_damaged_operator_is_refused_before_anything_is_allocated(broken: dict[str, object]) -> None:
    good = {"input_format": "RGB888_U8", "src_image_size_h": 4, "src_image_size_w": 6}
    picture = ir.Value(name="x", shape=ir.Shape((1, 4, 6, 3)), type=ir.TensorType(ir.DataType.UINT8))
    node = ir.Node(GE_DOMAIN, "Aipp", [picture], ir.convenience.convert_attributes({**good, **broken}), name="aipp_x")
    node.outputs[0].name, node.outputs[0].shape = "y", ir.Shape((1, 3, 4, 6))
    node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT16)
    graph = ir.Graph([picture], node.outputs, nodes=[node], opset_imports={"": ops.CANONICAL_OPSET, GE_DOMAIN: 1})
    with pytest.raises(AscError, match="ASC2001"):
        lower(ir.Model(graph, ir_version=10), saturate=True)


def test_nv12_helper_lays_out_luma_then_interleaved_chroma() -> None:
    yuv = np.array([[[1, 9, 8], [2, 9, 8]], [[3, 9, 8], [4, 9, 8]]], np.uint8)
    assert nv12(yuv).ravel().tolist() == [1, 2, 3, 4, 9, 8]
