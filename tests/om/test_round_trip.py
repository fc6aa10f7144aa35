"""IR -> .om -> IR -> .om changes no byte, on real models and on what those do not contain."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from asc_devkit import om
from asc_devkit.errors import AscError
from asc_devkit.ge.desc import DESC, GE_DOMAIN, MEMBERS, TensorDesc
from asc_devkit.ge.formats import storage_shape
from asc_devkit.ge.proto import ge_ir_pb2 as pb
from tests.e2e.converted import convert
from tests.om.graphs import FP16, constant, node

INFO = om.ModelInfo("m", "Ascend310P3")


def again(model: ir.Model, folder: Path) -> ir.Graph:
    """Write, read, write: the files must be equal. Returns the graph that was read."""
    om.write(folder / "a.om", model, INFO)
    back = om.read(folder / "a.om").to_ir()
    om.write(folder / "b.om", back, INFO)
    assert (folder / "a.om").read_bytes() == (folder / "b.om").read_bytes()
    return back.graph


def graph_of(
    nodes: list[ir.Node], inputs: list[ir.Value], outputs: list[ir.Value], weights: list[ir.Value] | None = None
) -> ir.Model:
    imports = {"": 23, GE_DOMAIN: 1, "com.microsoft": 1}
    return ir.Model(
        ir.Graph(inputs, outputs, nodes=nodes, initializers=weights or [], opset_imports=imports, name="g"),
        ir_version=10,
    )


def value(name: str, *shape: int, dtype: ir.DataType = FP16) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(dtype))


@pytest.mark.parametrize(
    ("key", "chip"),
    [
        ("ppocr_det", "Ascend310P3"),
        ("yolox", "Ascend910B2"),
        ("minilm", "Ascend310P3"),
        ("silero_if", "Ascend310P3"),
        ("magika", "Ascend910B2"),
        ("t5_int8", "Ascend310P3"),
    ],
)
def test_real_models(key: str, chip: str, tmp_path: Path) -> None:
    result = convert(key, chip)
    file = om.read(result.om_path)
    assert file.to_bytes() == result.om_path.read_bytes()
    attrs = file.attrs
    info = om.ModelInfo(
        file.model_def.name,
        attrs["soc_version"],
        attrs["atc_cmdline"],
        attrs["asc_precision_mode"],
        attrs["asc_overflow_mode"],
    )
    graph = file.to_ir()
    om.write(tmp_path / "again.om", graph, info, om.MemoryLayout.from_plan(result.memory))
    assert (tmp_path / "again.om").read_bytes() == result.om_path.read_bytes()
    for name, weight in result.model.graph.initializers.items():
        back = graph.graph.initializers[name].const_value
        assert weight.const_value is not None and back is not None
        assert back.tobytes() == weight.const_value.tobytes(), name


def test_booleans_types_and_numbers_stay_what_they_are(tmp_path: Path) -> None:
    x, y = value("x", 4, 20), value("y", 20, 7)
    attrs = [ir.AttrInt64("transpose_x1", 1), ir.AttrInt64("transpose_x2", 0), ir.AttrInt64("offset_x", 1)]
    matmul = node("MatMulV2", [x, y], [4, 7], "matmul", attrs)
    cast = node("Cast", [matmul.outputs[0]], [4, 7], "cast", [ir.AttrInt64("dst_type", int(ir.DataType.FLOAT))])
    graph = again(graph_of([matmul, cast], [x, y], [cast.outputs[0]]), tmp_path)
    stored = {op.name: op.attr for op in om.read(tmp_path / "a.om").model_def.graph[0].op}
    assert stored["matmul"]["transpose_x1"].WhichOneof("value") == "b"
    assert stored["matmul"]["offset_x"].WhichOneof("value") == "i"
    assert stored["cast"]["dst_type"].i == 0 or stored["cast"]["dst_type"].dt == 0  # DT_FLOAT of the runtime
    assert graph[0].attributes["transpose_x1"].as_int() == 1
    assert graph[1].attributes["dst_type"].as_int() == ir.DataType.FLOAT


@pytest.mark.parametrize(
    "array",
    [
        np.array(3.5, np.float16),
        np.zeros((0, 4), np.float32),
        np.arange(5, dtype=np.int64),
        np.array([True, False, True]),
        np.linspace(-3, 3, 9).astype(ml_dtypes.bfloat16).reshape(3, 3),
        np.array([-8, 7, 1], ml_dtypes.int4),
        np.array([1 + 2j], np.complex64),
        np.array([np.nan, np.inf, -0.0], np.float32),
    ],
)
def test_constants_of_every_kind(array: np.ndarray, tmp_path: Path) -> None:
    weights: list[ir.Value] = []
    weight = constant(weights, "w", array)
    x = value("x", 1)
    host = node("Something", [x, weight], [1], "host", domain="com.microsoft")
    back = again(graph_of([host], [x], [host.outputs[0]], weights), tmp_path).initializers["w"].const_value
    assert back is not None and back.dtype == weight.dtype and tuple(back.shape.numpy()) == array.shape
    assert np.asarray(back.numpy()).tobytes() == array.tobytes()


@pytest.mark.parametrize("shape", [(), (3,), (1, 3), (0,)])
def test_strings_with_zeros_and_nothing_in_them(shape: tuple[int, ...], tmp_path: Path) -> None:
    texts = np.array([b"a\0b", b"", "Käse".encode()][: int(np.prod(shape))], dtype=object).reshape(shape)
    tensor = ir.StringTensor(texts, shape=ir.Shape(shape), name="s")
    s = ir.Value(name="s", shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.STRING), const_value=tensor)
    host = node("StringNormalizer", [s], list(shape), "host", dtype=ir.DataType.STRING, domain="")
    back = again(graph_of([host], [], [host.outputs[0]], [s]), tmp_path).initializers["s"].const_value
    assert back is not None
    assert np.asarray(back.numpy()).tolist() == texts.tolist()


def test_sequences_optionals_and_domains_of_host_operators(tmp_path: Path) -> None:
    x = value("x", 2)
    made = node("SequenceConstruct", [x, x], [2], "made", domain="")
    made.outputs[0].type, made.outputs[0].shape = ir.SequenceType(ir.TensorType(FP16)), None
    kind = ir.TypeAndShape(ir.SequenceType(ir.TensorType(FP16)), None)
    optional = node("Optional", [made.outputs[0]], [2], "optional", [ir.AttrTypeProto("type", kind)], domain="")
    optional.outputs[0].type, optional.outputs[0].shape = ir.OptionalType(kind.type), None
    graph = again(graph_of([made, optional], [x], [optional.outputs[0]]), tmp_path)
    assert graph[0].outputs[0].type == ir.SequenceType(ir.TensorType(FP16))
    assert graph[1].outputs[0].type == ir.OptionalType(ir.SequenceType(ir.TensorType(FP16)))
    assert graph[1].attributes["type"].value.type == kind.type
    assert graph.opset_imports == {"": 23, GE_DOMAIN: 1, "com.microsoft": 1}


def test_bodies_capture_values_and_the_result_is_a_valid_onnx_graph(tmp_path: Path) -> None:
    x, flag = value("x", 2, dtype=ir.DataType.FLOAT), value("flag", dtype=ir.DataType.BOOL)
    weights: list[ir.Value] = []
    w = constant(weights, "w", np.ones(2, np.float32))
    inner_weights: list[ir.Value] = []
    own = constant(inner_weights, "own", np.full(2, 3, np.float32))
    add = node("Add", [x, w], [2], "branch", dtype=ir.DataType.FLOAT, domain="")
    nested = node("Mul", [add.outputs[0], x], [2], "nested", dtype=ir.DataType.FLOAT, domain="")
    deep = ir.Graph([], [nested.outputs[0]], nodes=[nested], name="deep")
    direct = node("Identity", [own], [2], "direct", dtype=ir.DataType.FLOAT, domain="")
    other = ir.Graph([], [direct.outputs[0]], nodes=[direct], initializers=inner_weights, name="other")
    inside = node(
        "If",
        [flag],
        [2],
        "choice",
        [ir.AttrGraph("then_branch", deep), ir.AttrGraph("else_branch", other)],
        dtype=ir.DataType.FLOAT,
        domain="",
    )
    then = ir.Graph([], [inside.outputs[0]], nodes=[add, inside], name="then")
    same = node("Identity", [x], [2], "same", dtype=ir.DataType.FLOAT, domain="")
    otherwise = ir.Graph([], [same.outputs[0]], nodes=[same], name="otherwise")
    choice = node(
        "If",
        [flag],
        [2],
        "choice",
        [ir.AttrGraph("then_branch", then), ir.AttrGraph("else_branch", otherwise)],
        dtype=ir.DataType.FLOAT,
        domain="",
    )
    choice.outputs[0].name, inside.outputs[0].name = "outer_y", "inner_y"
    graph = again(graph_of([choice], [x, flag], [choice.outputs[0]], weights), tmp_path)
    body = graph[0].attributes["then_branch"].as_graph()
    assert body[0].inputs[0] is graph.inputs[0] and body[0].inputs[1] is graph.initializers["w"]
    assert [n.name for n in body] == ["branch", "choice"]
    model = ir.Model(graph, ir_version=10)
    for inner in [
        graph,
        *(
            g
            for n in graph.all_nodes()
            for a in n.attributes.values()
            if a.type == ir.AttributeType.GRAPH
            for g in [a.as_graph()]
        ),
    ]:
        inner.opset_imports.pop(GE_DOMAIN, None)
    onnx.checker.check_model(ir.serde.serialize_model(model), full_check=True)


def test_names_that_clash_stay_apart(tmp_path: Path) -> None:
    """A node named like an input, like another node, like the pseudo-operator at the end; a group fed one value twice."""
    x = value("x", 2)
    square = node("Mul", [x, x], [2], "x")
    end = node("Relu", [square.outputs[0]], [2], "NetOutput")
    twin = node("Relu", [end.outputs[0]], [2], "NetOutput")
    twin.outputs[0].name = "y2"
    inner = [ir.Value(name="x", shape=x.shape, type=x.type) for _ in range(2)]
    member = node("Mul", [inner[1], inner[1]], [2], "fused")
    body = ir.Graph(inner, [member.outputs[0]], nodes=[member], name="members")
    fused = node("Mul", [twin.outputs[0], twin.outputs[0]], [2], "fused", [ir.AttrGraph(MEMBERS, body)])
    graph = again(graph_of([square, end, twin, fused], [x], [fused.outputs[0]]), tmp_path)
    assert [n.name for n in graph] == ["x_2", "NetOutput", "NetOutput_2", "fused"]
    made = graph[3].attributes[MEMBERS].as_graph()
    assert made[0].name == "fused" and made[0].inputs[0] is made.inputs[1]
    assert len({v.name for v in made.inputs}) == 2


def test_task_entries_point_at_operators_and_weights_at_the_pool(tmp_path: Path) -> None:
    x = value("x", 4, 20)
    weights: list[ir.Value] = []
    first = constant(weights, "first", np.ones(3, np.float16))
    second = constant(weights, "second", np.ones((20, 7), np.float16), "FRACTAL_NZ")
    del first
    matmul = node("MatMulV2", [x, second, None], [4, 7], "matmul")
    layout = om.MemoryLayout({"x": (512, 192), "matmul_y": (1024, 96)}, memory_size=4096)
    om.write(tmp_path / "m.om", graph_of([matmul], [x], [matmul.outputs[0]], weights), INFO, layout)
    file = om.read(tmp_path / "m.om")
    ops = {op.name: op for op in file.model_def.graph[0].op}
    assert list(ops["matmul"].input_i) == [512, 4096 + 512, 0] and list(ops["matmul"].output_i) == [1024]
    assert list(ops["matmul"].is_input_const) == [False, True, False]
    (task,) = file.task_def.task
    assert task.kernel.context.op_index == ops["matmul"].id
    assert task.kernel.context.args_format == "{i_instance0*}{i_instance1*}{o_instance0*}"


def test_what_an_om_cannot_hold_is_refused_by_name(tmp_path: Path) -> None:
    x = value("x", 2)
    sparse = ir.Attr("sparse_value", ir.AttributeType.SPARSE_TENSOR, None)
    bad = node("Constant", [x], [2], "bad", [sparse], domain="")
    with pytest.raises(AscError, match="sparse_value of bad"):
        om.write(tmp_path / "m.om", graph_of([bad], [x], [bad.outputs[0]]), INFO)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["ü" * 40, "a" * 80, "\udcff", ""])
def test_long_and_odd_model_names(name: str, tmp_path: Path) -> None:
    x = value("x", 2)
    relu = node("Relu", [x], [2], "relu")
    om.write(
        tmp_path / "m.om",
        graph_of([relu], [x], [relu.outputs[0]]),
        om.ModelInfo(name, "Ascend310P3", atc_cmdline=f"atc --model={name}"),
    )
    file = om.read(tmp_path / "m.om")
    assert file.to_bytes() == (tmp_path / "m.om").read_bytes()
    assert len(file.header.name.encode()) <= 31


def test_weights_are_streamed_one_at_a_time(tmp_path: Path) -> None:
    """192 MB of weights pass through a fraction of that, and opening the file copies none of them."""
    shape, count = (2048, 2048), 24
    weights, nodes = [], []
    x = last = value("x", 1, 2048)
    for i in range(count):
        lazy = ir.LazyTensor(
            lambda i=i: ir.Tensor(np.full(shape, i, np.float16)), dtype=FP16, shape=ir.Shape(shape), name=f"w{i}"
        )
        w = ir.Value(name=f"w{i}", shape=ir.Shape(shape), type=ir.TensorType(FP16), const_value=lazy)
        fmt = "FRACTAL_NZ" if i % 2 else "ND"
        w.meta[DESC] = TensorDesc(fmt, "ND", storage_shape(shape, "ND", fmt, FP16))
        weights.append(w)
        nodes.append(node("MatMulV2", [last, w], [1, 2048], f"m{i}"))
        last = nodes[-1].outputs[0]
    tracemalloc.start()
    try:
        om.write(tmp_path / "big.om", graph_of(nodes, [x], [last], weights), INFO)
        file = om.read(tmp_path / "big.om")
        graph = file.to_ir().graph
        file.rewrite(tmp_path / "packed.om", compressed=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "big.om").stat().st_size > 190 << 20
    assert peak < 48 << 20
    for index in (0, 23):
        tensor = graph.initializers[f"w{index}"].const_value
        assert tensor is not None and np.all(tensor.numpy() == index)


def test_every_weight_tensor_starts_on_a_512_byte_boundary(tmp_path: Path) -> None:
    definition = om.read(convert("ppocr_det", "Ascend310P3").om_path).model_def
    places = [op.attr["value"].t.desc for op in definition.graph[0].op if op.type == "Const"]
    assert len(places) > 50
    assert all(d.data_offset % 512 == 0 and d.dtype != pb.DT_UNDEFINED for d in places)
    ends = [(d.data_offset, d.data_offset + d.weight_size) for d in places]
    assert all(end <= start for (_, end), (start, _) in zip(sorted(ends), sorted(ends)[1:], strict=False))
