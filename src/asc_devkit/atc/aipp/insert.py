"""Putting ``Aipp`` operators behind the inputs of a GE graph: which input, what size, and does the result fit the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from asc_devkit.atc.aipp.config import Aipp, DynamicAipp, invalid
from asc_devkit.atc.options import nearest
from asc_devkit.errors import AscError, Problem
from asc_devkit.ge.desc import DESC, ENGINE, GE_DOMAIN, MAX_BYTES, ORIGIN_DTYPE, ORIGIN_TENSOR, Engine, TensorDesc
from asc_devkit.ge.pictures import MAX_PARAMETER_PICTURES, PARAMETER_INPUT, parameter_bytes
from asc_devkit.ops import attributes, lookup

_Say = Callable[..., None]
_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
# Chips on which the padded picture may be at most 1080 pixels wide instead of 4096 (source: public ATC manual).
_NARROW = frozenset({"310", "310P", "910"})


def insert(
    graph: ir.Graph,
    configurations: Sequence[Aipp | DynamicAipp],
    *,
    generation: str,
    input_format: str = "NCHW",
    fp16_inputs: Sequence[str] = (),
) -> dict[str, Aipp | DynamicAipp]:
    """Give each named input of a GE graph a uint8 picture and an ``Aipp`` operator behind it, in place.

    Dynamic AIPP adds an input for its parameters behind those of the model.

    Returns the configurations by input, sizes filled in. ``generation``: of the chip. ``fp16_inputs``: names that
    --input_fp16_nodes gives. Raises ``AscError`` with every configuration that does not fit its input (E10052, E10034).
    """
    problems: list[Problem] = []
    chosen: dict[str, Aipp | DynamicAipp] = {}
    values = {value.name or "": value for value in graph.inputs}
    for number, aipp in enumerate(configurations, start=1):
        name = _input_name(aipp, list(values), number, problems)
        if name is None:
            continue
        if name in chosen:
            problems.append(invalid(f"aipp_op {number} names the input {name} again", "Keep one per input.", (name,)))
            continue
        if name in fp16_inputs:
            problems.append(_both(name))
        fitted = (
            _fit_dynamic(aipp, values[name], name, problems)
            if isinstance(aipp, DynamicAipp)
            else _fit(aipp, values[name], name, generation, problems)
        )
        if fitted is not None:
            chosen[name] = fitted
    if input_format == "ND":
        problems.append(invalid("--input_format is ND, and AIPP makes NCHW", "Use --input_format=NCHW."))
    if problems:
        raise AscError(problems)
    for name, aipp in chosen.items():
        if isinstance(aipp, DynamicAipp):
            _insert_dynamic(graph, values[name], aipp)
        else:
            _insert(graph, values[name], aipp)
    return chosen


def of_graph(graph: ir.Graph) -> dict[str, Aipp]:
    """The static configurations of a compiled graph by input name."""
    return {
        node.inputs[0].name or "": Aipp.of_node(node)
        for node in graph
        if node.op_type == "Aipp" and len(node.inputs) == 1 and node.inputs[0] is not None
    }


def _both(name: str) -> Problem:
    return Problem(
        "E10034",
        f"Nodes (for example, {name}) connected to AIPP must not be of type FP16.",
        cause="AIPP takes the bytes of pictures, and --input_fp16_nodes names the same input.",
        fix=f"Remove {name} from --input_fp16_nodes, or drop --insert_op_conf.",
        nodes=(name,),
        seed_class="EE1034",
    )


def _input_name(aipp: Aipp | DynamicAipp, names: list[str], number: int, problems: list[Problem]) -> str | None:
    """The input an ``aipp_op`` is for: by name, which outranks the rank, else by rank."""
    name, rank = aipp.related_input_name, aipp.related_input_rank
    listed = f"The inputs are {', '.join(names)}."
    if name and name not in names:
        problems.append(
            invalid(
                f"aipp_op {number} is for the input {name}, which the model has not",
                f"{nearest(name, names)} {listed}".strip(),
                (name,),
            )
        )
        return None
    if not name and rank >= len(names):
        problems.append(
            invalid(
                f"aipp_op {number} is for input {rank} (counted from 0), the model has {len(names)}",
                listed,
                ("related_input_rank",),
            )
        )
        return None
    return name or names[rank]


def _fit(aipp: Aipp, value: ir.Value, name: str, generation: str, problems: list[Problem]) -> Aipp | None:
    """``aipp`` with all sizes filled in from the model's input; None, and problems added, when the two do not go together."""
    found: list[Problem] = []

    def say(reason: str, fix: str = "") -> None:
        found.append(invalid(f"input {name}: {reason}", fix, (name,)))

    shape = tuple(value.shape or ())
    if len(shape) != 4 or not all(isinstance(d, int) for d in shape):
        say(f"its shape is {list(shape)}; AIPP makes four fixed dimensions, NCHW", "Fix the shape with --input_shape.")
    elif value.dtype not in _FLOATS and value.dtype != ir.DataType.UINT8:
        say(f"its type is {value.dtype}; AIPP makes fp16 or uint8")
    else:
        _, channels, height, width = (int(d) for d in shape)  # type: ignore[arg-type]
        aipp = _fill(aipp, width, height, say)
        _check_channels(aipp, channels, say)
        _check_size(aipp, width, height, generation, say)
        if value.dtype == ir.DataType.UINT8 and aipp.padding and not 0 <= aipp.padding_value <= 255:
            say(f"padding_value is {aipp.padding_value:g}, and the model takes bytes")
    problems += found
    return None if found else aipp


def _fit_dynamic(aipp: DynamicAipp, value: ir.Value, name: str, problems: list[Problem]) -> DynamicAipp | None:
    shape = tuple(value.shape or ())
    if len(shape) != 4 or not all(isinstance(d, int) for d in shape):
        reason = f"its shape is {list(shape)}; AIPP makes four fixed dimensions, NCHW"
    elif value.dtype not in _FLOATS and value.dtype != ir.DataType.UINT8:
        reason = f"its type is {value.dtype}; AIPP makes fp16 or uint8"
    elif not 1 <= int(shape[0]) <= MAX_PARAMETER_PICTURES:  # type: ignore[arg-type]
        reason = (
            f"its batch is {shape[0]}; the parameters of dynamic AIPP describe up to {MAX_PARAMETER_PICTURES} pictures"
        )
    else:
        return aipp
    problems.append(invalid(f"input {name}: {reason}", "", (name,)))
    return None


def _fill(aipp: Aipp, width: int, height: int, say: _Say) -> Aipp:
    if not aipp.src_image_size_w:
        aipp = replace(aipp, src_image_size_w=width, src_image_size_h=height)
        if aipp.input_format == "YUV420SP_U8" and (width % 2 or height % 2):
            say(f"the model takes {width} x {height}; YUV420SP_U8 pictures have an even width and height")
        if not (2 <= width <= 4096 and 1 <= height <= 4096):
            say(f"the model takes {width} x {height}; pictures are 2 to 4096 wide and 1 to 4096 high")
    if aipp.crop:
        aipp = replace(aipp, crop_size_w=aipp.crop_size_w or width, crop_size_h=aipp.crop_size_h or height)
    return aipp


def _check_channels(aipp: Aipp, channels: int, say: _Say) -> None:
    picture = aipp.picture
    possible: tuple[int, ...]
    if aipp.csc_switch:
        possible = (1, 3)
    elif picture.yuv:
        possible = (1, picture.channels)
    else:
        possible = tuple(range(3, picture.channels + 1))
    if channels not in possible:
        hint = " with the matrix of a grey picture (docs/aipp.md)" if channels == 1 else ""
        say(
            f"the model takes {channels} channels; {picture.name} gives "
            + " or ".join(str(n) for n in dict.fromkeys(possible)),
            f"Set csc_switch: true{hint}, or choose another input_format.",
        )


def _check_size(aipp: Aipp, width: int, height: int, generation: str, say: _Say) -> None:
    sizes = []
    for axis, sides, wanted in (("w", ("left", "right"), width), ("h", ("top", "bottom"), height)):
        whole = getattr(aipp, f"src_image_size_{axis}")
        size = getattr(aipp, f"crop_size_{axis}") if aipp.crop else whole
        start = getattr(aipp, f"load_start_pos_{axis}")
        if aipp.crop and start + size > whole:
            say(f"load_start_pos_{axis} {start} + crop_size_{axis} {size} passes src_image_size_{axis} {whole}")
        sizes.append((size + sum(getattr(aipp, f"{side}_padding_size") for side in sides), wanted))
    if any(have != want for have, want in sizes):
        (have_w, _), (have_h, _) = sizes
        say(
            f"AIPP makes {have_w} x {have_h} (width x height), the model takes {width} x {height}",
            "Crop and pad to the model's size.",
        )
    limit = 1080 if generation in _NARROW else 4096
    if aipp.padding and sizes[0][0] > limit:
        say(f"the padded width {sizes[0][0]} passes {limit}, the limit of this chip")


def _insert(graph: ir.Graph, value: ir.Value, aipp: Aipp) -> None:
    assert value.shape is not None
    _add_operator(graph, value, aipp.attributes(), [value])
    shape = aipp.picture.buffer_shape(int(value.shape[0]), aipp.src_image_size_h, aipp.src_image_size_w)  # type: ignore[arg-type]
    value.shape, value.type = ir.Shape(shape), ir.TensorType(ir.DataType.UINT8)
    value.meta[DESC] = TensorDesc("NHWC", "NHWC", shape)


def _insert_dynamic(graph: ir.Graph, value: ir.Value, aipp: DynamicAipp) -> None:
    """The pictures get as many bytes as the configuration allows; their height and width are open until run time."""
    assert value.shape is not None
    batch = int(value.shape[0])  # type: ignore[arg-type]
    taken, name, number = {v.name for v in graph.inputs}, PARAMETER_INPUT, 0
    while name in taken:
        number += 1
        name = f"{PARAMETER_INPUT}_{number}"
    size = parameter_bytes(batch)
    parameters = ir.Value(name=name, shape=ir.Shape((size,)), type=ir.TensorType(ir.DataType.UINT8))
    parameters.meta[DESC] = TensorDesc("ND", "ND", (size,))
    facts = {"aipp_mode": "dynamic", "max_src_image_size": aipp.max_src_image_size}
    _add_operator(graph, value, facts, [value, parameters])
    graph.inputs.append(parameters)
    value.shape, value.type = ir.Shape((batch, None, None, None)), ir.TensorType(ir.DataType.UINT8)
    value.meta[DESC] = TensorDesc("NHWC", "NHWC", (batch, -1, -1, -1))
    value.meta[MAX_BYTES] = aipp.max_src_image_size


def _add_operator(graph: ir.Graph, value: ir.Value, facts: dict[str, Any], inputs: list[ir.Value]) -> None:
    """An ``Aipp`` operator as the first of the graph; what read ``value`` reads its output."""
    spec = lookup("Aipp")
    assert spec is not None
    made = [attributes.typed(name, item, spec.attrs[name]) for name, item in facts.items()]
    name = value.name or ""
    taken = {v.name for node in graph.all_nodes() for v in node.outputs} | {v.name for v in graph.inputs}
    fresh = f"{name}__aipp"
    while fresh in taken:
        fresh += "_"
    output = ir.Value(
        name=fresh,
        shape=value.shape,
        type=ir.TensorType(value.dtype if value.dtype == ir.DataType.UINT8 else ir.DataType.FLOAT16),
    )
    output.meta[ORIGIN_TENSOR], output.meta[ORIGIN_DTYPE] = name, value.dtype
    value.replace_all_uses_with(output, replace_graph_outputs=True)
    node = ir.Node(GE_DOMAIN, "Aipp", inputs, made, outputs=[output], name=f"aipp_{name}")
    node.meta[ENGINE] = Engine.VECTOR
    first = next(iter(graph), None)
    graph.append(node) if first is None else graph.insert_before(first, node)
