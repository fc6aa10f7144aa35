"""Which float type every operator computes in (``--precision_mode``), and the Cast nodes that follow from it.

Modes are described in docs/virtual_npu.md; meaning of the words from the public ATC manual (facts: precision, 4.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx_ir as ir

from asc_devkit import ops
from asc_devkit.atc.select import quantised
from asc_devkit.atc.select.overrides import Overrides
from asc_devkit.errors import AscError, Problem
from asc_devkit.ge.desc import ENGINE, GE_DOMAIN, ORIGIN_DTYPE, ORIGIN_TENSOR, Engine
from asc_devkit.ops.catalogue import Cost, GeOp, Mix
from asc_devkit.soc import Soc

FP32, FP16, BF16 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16
_FLOATS: Final = frozenset({FP32, FP16, BF16})
_NAMES: Final = {"fp16": FP16, "bf16": BF16, "fp32": FP32}
_NUMPY: Final[dict[ir.DataType, Any]] = {FP16: np.float16, BF16: ml_dtypes.bfloat16, FP32: np.float32}
FP16_MAX: Final = 65504.0


@dataclass(frozen=True)
class Mode:
    """One precision mode: what cube operators read and write, what vector operators use, and the low float type.

    ``follow`` marks the mixed modes, where white operators drop, black ones stay and gray ones follow their producer.
    """

    low: ir.DataType = FP16
    cube_in_low: bool = True
    cube_out_low: bool = True
    vector_low: bool = False
    follow: bool = False
    keep: bool = False


MODES: Final[dict[str, Mode]] = {
    "force_fp16": Mode(vector_low=True),
    "allow_fp32_to_fp16": Mode(),
    "allow_fp32_to_bf16": Mode(low=BF16),
    "cube_fp16in_fp32out": Mode(cube_out_low=False),
    "must_keep_origin_dtype": Mode(cube_in_low=False, cube_out_low=False, keep=True),
    "allow_mix_precision_fp16": Mode(follow=True),
    "allow_mix_precision_bf16": Mode(low=BF16, follow=True),
}


@dataclass
class Selected:
    """Result of ``apply``: counts for the log, and nodes whose wish could not be met."""

    casts: int = 0
    low_nodes: int = 0
    full_nodes: int = 0
    clipped_constants: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def apply(
    model: ir.Model,
    soc: Soc,
    mode_name: str,
    *,
    fp16_inputs: Sequence[str] = (),
    output_types: dict[int, ir.DataType] | None = None,
    weight_clip: bool = True,
    overrides: Overrides | None = None,
) -> Selected:
    """Give every float value its device dtype in place; inserts Cast nodes and converts constants lazily.

    Raises ``AscError`` (EZ3002, all nodes at once) when ``must_keep_origin_dtype`` asks for a type that the chip's cube
    lacks, and E10001 when a bf16 mode is asked of a chip without bf16.
    """
    mode = MODES[mode_name]
    if mode.low == BF16 and "bf16" not in soc.cube_floats:
        raise AscError(
            Problem(
                "E10001",
                f"Value [{mode_name}] for parameter [precision_mode] is invalid. "
                f"Reason: {soc.name} has no bfloat16 cube.",
                cause="bfloat16 came with the Ascend910B series.",
                fix="Use a float16 mode, or a chip of the Ascend910B series or later.",
                nodes=("--precision_mode",),
                seed_class="EE1001",
            )
        )
    selector = _Selector(soc, mode, weight_clip, overrides or Overrides())
    if overrides is not None:
        selector.result.warnings += overrides.unmatched(ir.traversal.RecursiveGraphIterator(model.graph))
    for value in model.graph.inputs:
        if value.name in fp16_inputs and value.dtype in _FLOATS:
            selector.origin[value] = FP32 if value.dtype == FP16 else value.dtype
            value.dtype = FP16
    selector.walk(model.graph)
    if selector.refused:
        raise AscError(_refusal(selector.refused, soc))
    selector.outputs(model.graph, output_types or {})
    selector.drop_noop_casts(model.graph)
    _drop_unused_initializers(model.graph)
    return selector.result


class _Selector:
    """State of one walk: origin dtypes, casts already made, constants already converted."""

    def __init__(self, soc: Soc, mode: Mode, weight_clip: bool, overrides: Overrides) -> None:
        self.soc, self.mode, self.weight_clip = soc, mode, weight_clip
        self.overrides = overrides
        self.origin: dict[ir.Value, ir.DataType] = {}
        self.made: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}
        self.refused: list[ir.Node] = []
        self.keep_fp32: set[ir.Node] = set()
        self.read_fp32: set[ir.Node] = set()
        self.result = Selected()

    def walk(self, graph: ir.Graph) -> None:
        whole, last = quantised.keep_fp32(graph)
        self.keep_fp32 |= whole
        self.read_fp32 |= last
        for node in list(graph):
            spec = ops.lookup(node.op_type) if node.domain == GE_DOMAIN else None
            if spec is None:
                self._host(node)
            else:
                self._device(node, spec)

    def _device(self, node: ir.Node, spec: GeOp) -> None:
        node.meta[ENGINE] = spec.engine
        bodies = [a.as_graph() for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]
        if bodies:
            self._control(node, bodies)
            return
        if spec.type == "Cast":
            self._cast_node(node)
            return
        inside, outside = self._choose(node, spec)
        if inside is None or outside is None:
            return
        data = node.inputs[:1] if spec.cost is Cost.QUANT else node.inputs  # scales keep their type
        taken, given = self._custom(node, spec, [inside] * len(data), [outside] * len(node.outputs))
        for index, value in enumerate(data):
            if value is not None and value.dtype in _FLOATS and value.dtype != taken[index]:
                node.replace_input_with(index, self._converted(value, taken[index], node))
        for value, dtype in zip(node.outputs, given, strict=True):
            if value.dtype in _FLOATS:
                self.origin.setdefault(value, value.meta.get(ORIGIN_DTYPE, value.dtype))
                value.dtype = dtype
        outside = given[0]
        for name, kind in spec.attrs.items():
            if kind == "dtype" and name in node.attributes and node.attributes[name].value in _FLOAT_CODES:
                node.attributes[name] = ir.AttrInt64(name, int(outside))
        self.result.low_nodes += outside != FP32
        self.result.full_nodes += outside == FP32

    def _choose(self, node: ir.Node, spec: GeOp) -> tuple[ir.DataType | None, ir.DataType | None]:
        floats = [v for v in (*node.inputs, *node.outputs) if v is not None and v.dtype in _FLOATS]
        if not floats:
            return None, None
        origins = [self.origin.get(v, v.dtype) for v in floats]
        origin = FP32 if FP32 in origins else origins[0]
        assert origin is not None
        mode, low = self.mode, self.mode.low
        accepted = _accepted(spec, self.soc)
        if origin == FP32 and node in self.keep_fp32:
            return FP32, FP32
        if self.overrides.keeps(node):
            if origin in accepted:
                return origin, origin
            self.result.warnings.append(
                f"--keep_dtype: {node.name} ({node.op_type}) cannot keep its type: {self.soc.name} lacks it."
            )
        if origin == FP32 and node in self.read_fp32:
            return FP32, low if mode.vector_low else FP32
        if spec.engine is Engine.AICPU and origin in accepted and not mode.vector_low:
            return origin, origin
        if mode.keep:
            if origin not in accepted:
                self.refused.append(node)
            return origin, origin
        if spec.engine is Engine.CUBE:
            inside = low if low in accepted else origin
            outside = inside if mode.cube_out_low or origin != FP32 else FP32
            return inside, outside
        if mode.follow:
            wish = self._mixed(node, spec, origin)
        else:
            wish = low if mode.vector_low else origin
        if wish not in accepted:
            wish = FP32 if wish != FP32 and FP32 in accepted else (low if low in accepted else wish)
        return wish, wish

    def _custom(
        self, node: ir.Node, spec: GeOp, inputs: list[ir.DataType], outputs: list[ir.DataType]
    ) -> tuple[list[ir.DataType], list[ir.DataType]]:
        """The types that --customize_dtypes asks for in place of those chosen; warns about what cannot be done."""
        wish = self.overrides.custom(node)
        if wish is None:
            return inputs, outputs
        accepted, warn = _accepted(spec, self.soc), self.result.warnings.append
        where = f"--customize_dtypes: {node.name} ({node.op_type})"
        for side, chosen, asked in (("inputs", inputs, wish.inputs), ("outputs", outputs, wish.outputs)):
            if len(asked) != len(chosen):
                warn(f"{where} has {len(chosen)} {side}, the line gives {len(asked)} types: {wish.text}")
            for index, kind in enumerate(asked[: len(chosen)]):
                if kind is not None and kind not in accepted:
                    warn(f"{where} does not take {_suffix(kind)} on {self.soc.name}.")
                elif kind is not None:
                    chosen[index] = kind
        return inputs, outputs

    def _mixed(self, node: ir.Node, spec: GeOp, origin: ir.DataType) -> ir.DataType:
        mix = self.overrides.mix.get(spec.type, spec.mix)
        if mix is Mix.WHITE:
            return self.mode.low
        if mix is Mix.BLACK:
            return origin
        for value in node.inputs:
            if value is not None and value.dtype in _FLOATS and value.const_value is None and value.producer():
                return value.dtype
        return origin

    def _cast_node(self, node: ir.Node) -> None:
        output = node.outputs[0]
        if output.dtype not in _FLOATS:
            return
        assert output.dtype is not None
        self.origin[output] = output.dtype
        source = node.inputs[0]
        target = output.dtype
        if node in self.keep_fp32 or self.overrides.keeps(node):
            return
        if self.mode.vector_low or (self.mode.follow and source is not None and source.dtype == self.mode.low):
            target = self.mode.low
        output.dtype = target
        node.attributes["dst_type"] = ir.AttrInt64("dst_type", int(target))

    def _control(self, node: ir.Node, bodies: list[ir.Graph]) -> None:
        for body in bodies:
            self.walk(body)
        for index, value in enumerate(node.outputs):
            if value.dtype not in _FLOATS:
                continue
            assert value.dtype is not None
            self.origin[value] = value.dtype
            value.dtype = self.mode.low if self.mode.vector_low else value.dtype
            for body in bodies:
                result = body.outputs[index]
                if result.dtype != value.dtype and result.dtype in _FLOATS:
                    body.outputs[index] = self._converted(result, value.dtype, None, graph=body)

    def _host(self, node: ir.Node) -> None:
        """Host operators compute in the model's own types: cast changed values back, also those their bodies capture."""
        node.meta[ENGINE] = Engine.HOST
        for user, index, value in _outer_uses(node):
            origin = self.origin.get(value)
            if origin is not None and value.dtype != origin:
                user.replace_input_with(index, self._converted(value, origin, node))

    def outputs(self, graph: ir.Graph, wanted: dict[int, ir.DataType]) -> None:
        """Return every output in the model's own type, or in the one asked for, under the user's name."""
        for index, value in enumerate(graph.outputs):
            target = wanted.get(index, self.origin.get(value, value.dtype))
            if value.dtype == target or target is None or value.is_graph_input():
                continue
            name = value.name
            cast = self._cast(value, target, graph)
            graph.outputs[index] = cast
            value.name, cast.name = f"{name}__{_suffix(value.dtype)}", name
            cast.meta[ORIGIN_TENSOR] = value.meta.get(ORIGIN_TENSOR, name)

    def _converted(
        self, value: ir.Value, dtype: ir.DataType, before: ir.Node | None, graph: ir.Graph | None = None
    ) -> ir.Value:
        key = (value, dtype)
        if key not in self.made:
            if value.const_value is not None:
                self.made[key] = self._constant(value, dtype)
            else:
                home = value.graph or (before.graph if before else graph)
                assert isinstance(home, ir.Graph)
                self.made[key] = self._cast(value, dtype, home)
        return self.made[key]

    def _cast(self, value: ir.Value, dtype: ir.DataType, graph: ir.Graph) -> ir.Value:
        producer = value.producer()
        node = ir.Node(
            GE_DOMAIN,
            "Cast",
            [value],
            [ir.AttrInt64("dst_type", int(dtype))],
            name=f"{value.name}_cast_{_suffix(dtype)}",
        )
        output = node.outputs[0]
        output.name, output.shape, output.dtype = f"{value.name}__{_suffix(dtype)}", value.shape, dtype
        node.meta[ENGINE] = Engine.VECTOR
        if value in self.origin:
            self.origin[output] = self.origin[value]
        elif value.dtype is not None:
            self.origin[output] = value.dtype
        if producer is None or producer.graph is not graph:
            first = next(iter(graph), None)
            graph.append(node) if first is None else graph.insert_before(first, node)
        else:
            graph.insert_after(producer, node)
        self.result.casts += 1
        return output

    def _constant(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        tensor = value.const_value
        assert tensor is not None
        graph = value.graph
        assert isinstance(graph, ir.Graph)
        clip = self.weight_clip and dtype == FP16

        def convert() -> ir.TensorProtocol:
            array = np.asarray(tensor.numpy())
            if clip:
                array = np.where(np.isnan(array), array, np.clip(array, -FP16_MAX, FP16_MAX))
            with np.errstate(over="ignore"):
                return ir.tensor(array.astype(_NUMPY[dtype]))

        name = f"{value.name}__{_suffix(dtype)}"
        shape = ir.Shape(tensor.shape.numpy())
        lazy = ir.LazyTensor(convert, dtype=dtype, shape=shape, name=name)
        made = ir.Value(name=name, shape=shape, type=ir.TensorType(dtype), const_value=lazy)
        made.meta.update(value.meta)
        graph.register_initializer(made)
        return made

    def drop_noop_casts(self, graph: ir.Graph) -> None:
        """Remove user Casts that became fp16 -> fp16."""
        for node in list(graph):
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH and node.domain == GE_DOMAIN:
                    self.drop_noop_casts(attribute.as_graph())
            if node.domain != GE_DOMAIN or node.op_type != "Cast":
                continue
            source, output = node.inputs[0], node.outputs[0]
            if source is None or source.dtype != output.dtype or output.is_graph_output():
                continue
            output.replace_all_uses_with(source)
            graph.remove(node, safe=True)


def _outer_uses(node: ir.Node) -> Iterable[tuple[ir.Node, int, ir.Value]]:
    """(user, input index, value) for the node's own inputs and for outer values its bodies capture."""
    for index, value in enumerate(node.inputs):
        if value is not None:
            yield node, index, value
    for attribute in node.attributes.values():
        if attribute.type != ir.AttributeType.GRAPH:
            continue
        for inner in ir.traversal.RecursiveGraphIterator(attribute.as_graph()):
            for index, value in enumerate(inner.inputs):
                if value is not None and value.graph is node.graph:
                    yield inner, index, value


def _accepted(spec: GeOp, soc: Soc) -> frozenset[ir.DataType]:
    names = spec.floats.get(soc.generation) or spec.floats.get("*") or frozenset({"fp16", "fp32", "bf16"})
    return frozenset(_NAMES[n] for n in names if n != "bf16" or "bf16" in soc.cube_floats)


def _refusal(nodes: list[ir.Node], soc: Soc) -> Problem:
    kinds = sorted({n.op_type for n in nodes})
    return Problem(
        "EZ3002",
        f"Optype [{', '.join(kinds)}] of Ops kernel [AIcoreEngine] is unsupported on {soc.name} in the model's own "
        f"type: {len(nodes)} operators need float32.",
        cause=f"precision_mode keeps the model's types, but the cube of {soc.name} computes in fp16.",
        fix="Use --precision_mode=allow_fp32_to_fp16 or force_fp16, or a chip of the Ascend910B series.",
        nodes=tuple(f"{n.op_type} {n.name}" for n in nodes),
        seed_class="EE2002",
    )


def _drop_unused_initializers(graph: ir.Graph) -> None:
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]


def _suffix(dtype: ir.DataType | None) -> str:
    return {FP16: "fp16", BF16: "bf16", FP32: "fp32"}.get(dtype, str(dtype).lower()) if dtype else "none"


_FLOAT_CODES: Final = frozenset(int(d) for d in _FLOATS)
