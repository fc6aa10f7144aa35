"""``fix``: read, simplify, replace, bring to opset 18, write, list what remains, prove equal."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import onnx
import onnx_ir as ir

from asc_devkit import files, passes
from asc_devkit.errors import AscError, Problem
from asc_devkit.frontends.onnx import Loaded, load, original_nodes
from asc_devkit.onnxfix import inputs
from asc_devkit.onnxfix.downgrade import downgrade
from asc_devkit.onnxfix.proof import Proof, prove
from asc_devkit.onnxfix.rewrite import names_of, rewrite
from asc_devkit.ops.acceptance import NEWEST_OPSET, OriginalNode, Refused, refused
from asc_devkit.ops.catalogue import newer_opset
from asc_devkit.ops.infer import infer

SCHEMA: Final = "asc-devkit/onnx-fix/1"
EXTERNAL_ABOVE: Final = 1_800_000_000  # protobuf's limit is 2 GiB
INTEGER_SUMS: Final = frozenset({"MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv"})


@dataclass(frozen=True)
class FixResult:
    """What ``fix`` made. ``before`` and ``remaining``: what the real ATC refuses of the original and of the result."""

    model: Path
    output: Path
    opset: int
    before: tuple[Refused, ...]
    remaining: tuple[Refused, ...]
    replaced: Mapping[str, int]
    nodes: tuple[int, int]
    proof: Proof
    notes: tuple[str, ...]

    @property
    def accepted(self) -> bool:
        """Nothing is left that the real ATC refuses, and both models compute the same."""
        return not self.remaining and self.proof.holds

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "schema": SCHEMA,
            "model": str(self.model),
            "output": str(self.output),
            "opset_before": self.opset,
            "opset": NEWEST_OPSET,
            "nodes_before": self.nodes[0],
            "nodes": self.nodes[1],
            "refused_before": [row.as_dict() for row in self.before],
            "remaining": [row.as_dict() for row in self.remaining],
            "replaced": dict(self.replaced),
            "proof": self.proof.as_dict(),
            "notes": list(self.notes),
            "accepted": self.accepted,
        }


def fix(
    model: Path,
    output: Path,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    runs: int = 3,
    seed: int = 0,
    feeds: Sequence[Mapping[str, Any]] | None = None,
    on_stage: Callable[[str], None] | None = None,
) -> FixResult:
    """Rewrite ``model`` into one the real ATC accepts, write it to ``output`` and compare both.

    ``input_shapes`` fixes open axes (also in the result: computations on shapes then vanish). ``feeds``: inputs to
    compare with instead of ``runs`` random ones. Weights go to ``<output>.data`` when the original has external
    weights, or the result would pass 2 GB. Raises ``AscError`` for files that cannot be read or written.
    """
    tell = on_stage or (lambda stage: None)
    if model.resolve() == output.resolve():
        raise AscError(_same_file(output))
    tell("read")
    nodes = original_nodes(model)
    before = refused(nodes)
    loaded = load(model, input_shapes=input_shapes or None, host_ops=True)
    made = loaded.model
    infer(made)
    tell("rewrite")
    passes.clean(made)
    done = rewrite(made)
    passes.clean(made)
    names = names_of(made)
    kept = {**downgrade(made, names), **done.kept}
    remaining = [_explained(row, kept) for row in refused(_listed(made, kept))]
    tell("write")
    proto = onnx.load(model, load_external_data=False)
    _declare_outputs(made, proto)
    _write(made, output, proto, model.parent)
    tell("compare")
    proof = prove(model, output, feeds) if feeds is not None else _prove(loaded, model, output, runs, seed)
    return FixResult(
        model=model,
        output=output,
        opset=loaded.original.opset,
        before=tuple(before),
        remaining=tuple(remaining),
        replaced=dict(done.replaced),
        nodes=(sum(n.op_type != "Constant" for n in nodes), sum(1 for g in made.graphs() for _ in g)),
        proof=proof,
        notes=tuple(_notes(done.replaced)),
    )


def _prove(loaded: Loaded, model: Path, output: Path, runs: int, seed: int) -> Proof:
    """The proof over random inputs, with the first size of open axes that the original takes."""
    first: Proof | None = None
    for size in inputs.OPEN_AXES if inputs.has_open_axes(loaded) else inputs.OPEN_AXES[:1]:
        feeds = inputs.random_feeds(loaded, runs, seed, size)
        if feeds is None:
            break
        proof = prove(model, output, feeds)
        if not proof.refused:
            return proof
        first = first or proof
    return first or Proof((), 0, "", f"its inputs have more than {inputs.MAX_ELEMENTS} elements")


def _listed(model: ir.Model, kept: Mapping[str, str]) -> list[OriginalNode]:
    """The nodes of the result; those that could not be brought to opset 18 count as of the opset they need."""
    found = []
    for graph in model.graphs():
        for node in graph:
            name = node.name or ""
            newer = newer_opset(node.domain)
            domain = "" if newer is not None else node.domain
            opset = newer or (NEWEST_OPSET + (name in kept) if not domain else model.opset_imports.get(domain, 1))
            found.append(OriginalNode(domain, node.op_type, opset, name))
    return found


def _explained(row: Refused, kept: Mapping[str, str]) -> Refused:
    """The row with what stood in the way at its first node."""
    why = next((kept[name] for name in row.nodes if name in kept), "")
    if not why:
        return row
    hint = "Change the model where it is exported." if row.hint.startswith("asc onnx fix") else row.hint
    return Refused(row.op_type, row.domain, row.opset, row.nodes, why, hint)


def _notes(replaced: Mapping[str, int]) -> list[str]:
    found = []
    if INTEGER_SUMS & set(replaced):
        found.append(
            "integer products became float32 sums of up to 2^24, which fp16 cannot hold: convert with "
            "--precision_mode=must_keep_origin_dtype, or start from the float model"
        )
    if "QuantizeLinear" in replaced:
        found.append(
            "quantised layers are computed in floats with the same rounding; for int8 speed quantise the float model "
            "with the vendor's AMCT"
        )
    return found


def _declare_outputs(model: ir.Model, original: onnx.ModelProto) -> None:
    """Give outputs of unknown shape the shape the original declared: ONNX's checker wants one."""
    shapes = {o.name: o.type.tensor_type.shape for o in original.graph.output if o.type.tensor_type.HasField("shape")}
    for value in model.graph.outputs:
        shape = shapes.get(value.name or "")
        if value.shape is None and shape is not None and not isinstance(value.type, (ir.SequenceType, ir.OptionalType)):
            value.shape = ir.Shape([d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in shape.dim])


def _external_files(original: onnx.ModelProto, folder: Path) -> set[Path]:
    """The files that hold weights of the original."""
    external = (t for t in original.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL)
    return {(folder / e.value).resolve() for t in external for e in t.external_data if e.key == "location"}


def _write(model: ir.Model, output: Path, original: onnx.ModelProto, folder: Path) -> None:
    """Write beside the target first, then move: weights before the model that names them."""
    size = sum(
        v.const_value.nbytes
        for graph in model.graphs()
        for v in graph.initializers.values()
        if v.const_value is not None and v.const_value.dtype != ir.DataType.STRING
    )
    weights = _external_files(original, folder)
    data = f"{output.name}.data" if weights or size > EXTERNAL_ABOVE else None
    if weights & {output.resolve(), output.with_name(f"{output.name}.data").resolve()}:
        raise AscError(_same_file(output, "its weights would replace those of the model"))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".asc-fix-", dir=output.parent) as place:
            made = Path(place, output.name)
            ir.save(model, made, external_data=data, size_threshold_bytes=1024)
            if data is not None:
                shutil.move(Path(place, data), output.with_name(data))
            made.replace(output)
    except OSError as error:
        raise files.CannotWrite(output, error) from error


def _same_file(path: Path, why: str = "it is the model itself") -> Problem:
    return Problem(
        "E10001",
        f"Value [{path}] for parameter [output] is invalid. Reason: {why}.",
        cause="The original is needed to prove the result equal.",
        fix="Give -o another name.",
        nodes=(str(path),),
        seed_class="EE1001",
    )
