"""An ONNX model from an offline model: `asc om to-onnx`, and the front end that converts an `.om` for another chip."""

from __future__ import annotations

import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import onnx_ir as ir

from asc_devkit import __version__, files, ops
from asc_devkit.errors import AscError, Problem
from asc_devkit.om import mbatch
from asc_devkit.om.reader import OmFile
from asc_devkit.om.vendor import Guess

if TYPE_CHECKING:
    import onnx

IR_VERSION: Final = 10
MAX_INLINE: Final = 1 << 30  # bytes of weights above which they go into a file of their own
GUESSES: Final = "asc.guesses"  # key in the metadata of the ONNX model


@dataclass(frozen=True)
class Rebuilt:
    """The model (ONNX operators, opset ``ops.CANONICAL_OPSET``) and what it rests on beyond what the file says."""

    model: ir.Model
    guesses: tuple[Guess, ...]
    gear: int | None = None

    @property
    def weight_bytes(self) -> int:
        return sum(v.const_value.nbytes for v in self.model.graph.initializers.values() if v.const_value is not None)

    def proto(self) -> onnx.ModelProto:
        """The model with its weights inside."""
        made: onnx.ModelProto = ir.to_proto(self.model)
        return made


def rebuild(file: OmFile, *, gear: int | None = None, exact: bool = False, device_floats: bool = False) -> Rebuilt:
    """ONNX operators for the graph of ``file``.

    ``gear``: which one of a model with gears (default: the largest). ``device_floats`` keeps fp16 and bf16; otherwise they
    become fp32, which holds their values exactly and runs everywhere. Raises ``AscError`` for operators that cannot be
    told (ASC2001), and with ``exact`` when something is guessed (ASC2002, exit code 1).
    """
    if gear is None and file.gears:
        chosen = mbatch.largest(file.as_stored())
        gear = 0 if chosen is None else chosen[0]
    if gear is not None and not 0 <= gear < len(file.gears):
        listed = "; ".join(f"{i}: {dict(shapes)}" for i, shapes in enumerate(file.gears)) or "none"
        raise AscError(Problem("ASC4013", f"The model has no gear {gear}.", fix=f"Gears: {listed}."))
    source = file.to_ir(gear)
    guesses = tuple(file.guesses(gear))
    if exact and guesses:
        raise AscError(_guessed(guesses), exit_code=1)
    model = ops.convert.to_onnx(source, None if device_floats else ir.DataType.FLOAT)
    _simplify(model.graph)
    _name_nodes(model.graph)
    _name_outputs(model.graph, [info.name for info in file.outputs])
    model.ir_version = IR_VERSION
    model.producer_name, model.producer_version = "asc-devkit", __version__
    model.graph.name = file.header.name or "main"
    if guesses:
        model.metadata_props[GUESSES] = json.dumps([guess.as_dict() for guess in guesses])
    return Rebuilt(model, guesses, gear)


def save(rebuilt: Rebuilt, path: str | PathLike[str]) -> list[Path]:
    """Write the model, weights of more than a gibibyte into ``<name>.data`` beside it; returns the files written."""
    target = Path(path)
    if rebuilt.weight_bytes <= MAX_INLINE:
        with files.atomic_writer(target) as handle:
            handle.write(rebuilt.proto().SerializeToString())
        return [target]
    data = f"{target.name}.data"
    with TemporaryDirectory(prefix=".onnx-", dir=target.parent) as folder:
        ir.save(rebuilt.model, Path(folder) / target.name, external_data=data)
        for name in (data, target.name):
            (Path(folder) / name).replace(target.with_name(name))
    return [target, target.with_name(data)]


def _guessed(guesses: tuple[Guess, ...]) -> Problem:
    nodes = tuple(dict.fromkeys(guess.node for guess in guesses))
    first = guesses[0]
    return Problem(
        "ASC2002",
        f"{len(guesses)} facts of {len(nodes)} nodes are guesses, for example {first.what} of {first.node}.",
        cause="Fused kernels of the .om hide attributes of their operators.",
        fix="Leave --exact out and check these nodes, or use the original model.",
        nodes=nodes,
        seed_class="EE2002",
    )


def _simplify(graph: ir.Graph) -> None:
    """Take out what changed the layout or the float type on the device and does nothing here."""
    for node in list(graph):
        source = node.inputs[0] if node.inputs else None
        if source is None or node.domain or node.op_type not in ("Identity", "Cast"):
            continue
        if node.op_type == "Cast" and source.dtype != ir.DataType(node.attributes["to"].as_int()):
            continue
        result = node.outputs[0]
        if result.is_graph_output():
            free = source.producer() is not None and not source.is_graph_output()
            if not free or [n for n, _ in source.uses()].count(node) != 1:
                continue
            name = result.name
            result.replace_all_uses_with(source, replace_graph_outputs=True)
            graph.remove(node, safe=True)
            source.name = name
        else:
            result.replace_all_uses_with(source)
            graph.remove(node, safe=True)
    for name in [n for n, v in graph.initializers.items() if not v.uses() and not v.is_graph_output()]:
        del graph.initializers[name]


def _name_nodes(graph: ir.Graph) -> None:
    """A fused operator gives several nodes its name; ONNX Runtime wants each to have its own."""
    seen: set[str] = set()
    for number, node in enumerate(ir.traversal.RecursiveGraphIterator(graph)):
        name = node.name or f"{node.op_type}_{number}"
        while name in seen:
            name = f"{node.name or node.op_type}_{number}"
            number += 1
        seen.add(name)
        node.name = name


def _name_outputs(graph: ir.Graph, described: list[str]) -> None:
    """The user's names of the outputs, as the in/out description has them (``operator:index:name``)."""
    wanted = [text.split(":", 2)[2] if text.count(":") >= 2 else "" for text in described]
    if len(wanted) != len(graph.outputs) or len(set(wanted)) != len(wanted):
        return
    taken = {v.name for node in graph for v in node.outputs} | {v.name for v in graph.inputs} | set(graph.initializers)
    for value, name in zip(graph.outputs, wanted, strict=True):
        if name and name not in taken and value.producer() is not None:
            value.name = name
