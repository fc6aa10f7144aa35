"""Select gives every value the dtype, format and group that the mode and the chip ask for, and nothing is lost on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from asc_devkit import atc, npu, om
from asc_devkit.atc.options import from_flags
from asc_devkit.errors import AscError
from asc_devkit.ge.desc import DESC, MEMBERS
from asc_devkit.om import writer
from asc_devkit.passes import editor
from tests.cli.shell import onnx_cnn


def _model(path: Path, nodes: list[Any], inputs: dict[str, Any], outputs: list[str], weights: dict[str, Any]) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _convert(path: Path, soc: str = "Ascend310P3", **flags: str) -> atc.Result:
    base = {"model": str(path), "framework": "5", "output": str(path.with_suffix("")), "soc_version": soc}
    return atc.compile(from_flags({**base, **flags}))


def _rng_weights(**shapes: tuple[int, ...]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def test_a_chain_of_convolutions_converts_its_format_once_at_each_end(tmp_path: Path) -> None:
    result = _convert(onnx_cnn(tmp_path / "m.onnx", "x"), input_shape="x:1,3,32,32")
    kinds = [node.op_type for node in result.model.graph]
    first_conv, last_conv = kinds.index("Conv2D"), len(kinds) - 1 - kinds[::-1].index("Conv2D")
    assert "TransData" not in kinds[first_conv : last_conv + 1]
    assert result.counts["trans_data"] <= 4
    for node in result.model.graph:
        if node.op_type == "Conv2D":
            assert node.inputs[1].meta[DESC].format == "FRACTAL_Z"
            assert node.outputs[0].meta[DESC].format == "NC1HWC0"


def test_matrix_operands_are_fractal_on_old_cores_and_plain_on_new_ones(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "mm")]
    path = _model(tmp_path / "m.onnx", nodes, {"x": [4, 32]}, ["y"], _rng_weights(w=(32, 8)))
    formats = {}
    for soc in ("Ascend310P3", "Ascend910B2"):
        graph = _convert(path, soc).model.graph
        product = next(n for n in graph if "MatMul" in n.op_type)
        formats[soc] = (product.inputs[1].meta[DESC].format, sum(n.op_type == "TransData" for n in graph))
    assert formats["Ascend310P3"] == ("FRACTAL_NZ", 2)
    assert formats["Ascend910B2"] == ("ND", 0)


def test_a_group_keeps_its_members_and_rounds_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"], "relu"),
    ]
    path = _model(tmp_path / "m.onnx", nodes, {"x": [1, 4, 6, 6]}, ["y"], _rng_weights(w=(8, 4, 3, 3), b=(8,)))
    graph = _convert(path).model.graph
    fused = next(n for n in graph if n.op_type == "Conv2D")
    assert [m.op_type for m in fused.attributes[MEMBERS].as_graph()] == ["Conv2D", "Relu"]


@pytest.mark.parametrize(("clip", "expected"), [("1", 65504.0), ("0", np.inf)])
def test_constants_beyond_fp16_are_clipped_unless_told_otherwise(tmp_path: Path, clip: str, expected: float) -> None:
    nodes = [helper.make_node("Add", ["x", "big"], ["y"], "add")]
    path = _model(tmp_path / "m.onnx", nodes, {"x": [3]}, ["y"], {"big": np.full(3, 3.4e38, np.float32)})
    graph = _convert(path, is_weight_clip=clip).model.graph
    (constant,) = [v for v in graph.initializers.values() if v.const_value is not None]
    assert np.all(np.asarray(constant.const_value.numpy(), np.float32) == expected)


def test_input_fp16_nodes_change_the_input_and_refuse_unknown_names(tmp_path: Path) -> None:
    path = onnx_cnn(tmp_path / "m.onnx", "x")
    result = _convert(path, input_shape="x:1,3,32,32", input_fp16_nodes="x")
    (tensor,) = om.read(result.om_path).inputs
    assert tensor.dtype == "float16"
    from asc_devkit.errors import AscError

    with pytest.raises(AscError, match="E10016"):
        _convert(path, input_shape="x:1,3,32,32", input_fp16_nodes="images")


def test_bf16_modes_need_a_bf16_cube(tmp_path: Path) -> None:
    path = onnx_cnn(tmp_path / "m.onnx", "x")
    from asc_devkit.errors import AscError

    with pytest.raises(AscError, match="bfloat16"):
        _convert(path, input_shape="x:1,3,32,32", precision_mode="allow_fp32_to_bf16")
    result = _convert(path, "Ascend910B2", input_shape="x:1,3,32,32", precision_mode="allow_fp32_to_bf16")
    conv = next(n for n in result.model.graph if n.op_type == "Conv2D")
    assert conv.outputs[0].dtype.name == "BFLOAT16"


def test_dynamic_int8_scales_and_sums_stay_in_fp32(tmp_path: Path) -> None:
    """Sums of 70,000 pass fp16's 65504, and the product of two scales near 1e-4 is subnormal in fp16."""
    rng = np.random.default_rng(1)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "dql"),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["i"], "mmi"),
        helper.make_node("Cast", ["i"], ["f"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["s", "ws"], ["ss"], "scale"),
        helper.make_node("Mul", ["f", "ss"], ["y"], "dequant"),
    ]
    weights = {"w": rng.integers(-127, 128, (512, 16)).astype(np.int8), "ws": np.array([1e-4], np.float32)}
    path = _model(tmp_path / "m.onnx", nodes, {"x": [4, 512]}, ["y"], weights)
    result = _convert(path, host_ops="true")
    x = (rng.random((4, 512)) * 0.02).astype(np.float32)
    import onnxruntime as ort

    expected = ort.InferenceSession(str(path)).run(None, {"x": x})[0]
    (actual,) = npu.load(result.om_path).run({"x": x}).values()
    assert np.abs(actual - expected).max() <= 2e-3 * np.abs(expected).max()


def test_fusion_switches_turn_passes_off(tmp_path: Path) -> None:
    path = onnx_cnn(tmp_path / "m.onnx", "x")
    on = _convert(path, input_shape="x:1,3,32,32")
    switch = tmp_path / "switch.cfg"
    switch.write_text('{"Switch": {"GraphFusion": {"ConvBatchnormFusionPass": "off"}, "UBFusion": {"ALL": "off"}}}')
    off = _convert(path, input_shape="x:1,3,32,32", fusion_switch_file=str(switch))
    assert on.counts["fused_groups"] >= 2 and off.counts["fused_groups"] == 0
    assert off.counts["optimised"] > on.counts["optimised"]


def test_debug_dir_holds_the_graph_of_every_stage_and_one_file_per_operator(tmp_path: Path) -> None:
    _convert(onnx_cnn(tmp_path / "m.onnx", "x"), input_shape="x:1,3,32,32", debug_dir=str(tmp_path / "debug"))
    names = sorted(p.name for p in (tmp_path / "debug").iterdir())
    assert [n for n in names if n.startswith("ge_graph_")] == [
        "ge_graph_00000000_parse.txt",
        "ge_graph_00000001_optimise.txt",
        "ge_graph_00000002_select.txt",
    ]
    assert any("Conv2D" in n and n.endswith(".json") for n in names)


def test_the_implementation_mode_is_stored_on_the_operators_it_applies_to(tmp_path: Path) -> None:
    path = onnx_cnn(tmp_path / "m.onnx", "x")
    result = _convert(
        path, input_shape="x:1,3,32,32", op_select_implmode="high_precision", optypelist_for_implmode="SoftmaxV2"
    )
    (softmax,) = [op for op in om.read(result.om_path).model_def.graph[0].op if op.type == "SoftmaxV2"]
    assert softmax.attr["_op_impl_mode_enum"].i == 4


@pytest.mark.provokes("EZ3002")
def test_types_the_cube_lacks_are_refused_with_every_operator(tmp_path: Path) -> None:
    model = onnx_cnn(tmp_path / "m.onnx", "x")
    with pytest.raises(AscError) as refused:
        _convert(model, input_shape="x:1,3,32,32", precision_mode="must_keep_origin_dtype")
    (problem,) = refused.value.problems
    assert problem.code == "EZ3002"
    assert sorted(problem.nodes) == ["Conv2D conv_a", "Conv2D conv_b", "MatMulV2 gemm"]


@pytest.mark.provokes("E13023")
def test_a_partition_beyond_its_limit_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_PARTITION", 100)
    with pytest.raises(AscError, match="E13023: Partition MODEL_DEF"):
        _convert(onnx_cnn(tmp_path / "m.onnx", "x"), input_shape="x:1,3,32,32")
    assert not (tmp_path / "m.om").exists()


@pytest.mark.provokes("ASC1001")
def test_rewrites_that_would_blow_up_the_constants_are_stopped(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Mul", ["c", "s"], ["y"], name="scale"),
    ]
    weights = _rng_weights(w=(4, 3, 1, 1), s=(4, 1, 1))
    model = _model(tmp_path / "m.onnx", nodes, {"x": [1, 3, 8, 8]}, ["y"], weights)
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("CREATED_FACTOR", "CREATED_BYTES"):
            patch.setattr(editor, limit, 0)
        assert _convert(model).counts["optimised"] == 2  # the rewrite is dropped, the model stays as it was
    assert _convert(model).counts["optimised"] == 1
