"""Which implementation operators choose: ``--op_precision_mode``, ``--op_select_implmode``, ``--allow_hf32``.

The mode is stored on the node (``meta[IMPL_MODE]``, ``_op_impl_mode_enum`` in the ``.om``); ``npu.kernels`` executes it.
Without any of these options nothing is stored, and inner steps are computed in fp32. Order of precedence (public ATC
manual): --op_precision_mode replaces --op_select_implmode altogether; for HF32 the order is operator names of
--op_precision_mode, then --allow_hf32, then its operator types.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import onnx_ir as ir

from asc_devkit import ops
from asc_devkit.atc.options import nearest
from asc_devkit.atc.select.option_files import bad, read
from asc_devkit.errors import AscError, Problem
from asc_devkit.ge import impl_modes
from asc_devkit.ge.desc import GE_DOMAIN, IMPL_MODE, ORIGIN_OPS, Engine
from asc_devkit.soc import Soc

INDEXED: Final = ("Gather", "Scatter", "Segment", "EmbeddingBag")
_SYNONYMS: Final = {"Pooling": ("AvgPoolV2", "MaxPoolV3"), "pooling": ("AvgPoolV2", "MaxPoolV3")}
_VECTOR_MODES: Final = frozenset(
    {impl_modes.HIGH_PERFORMANCE, impl_modes.HIGH_PRECISION, impl_modes.SUPER_PERFORMANCE, impl_modes.KEEP_FP16}
)
_HF32_MODES: Final = frozenset({impl_modes.FLOAT_32, impl_modes.HI_FLOAT_32})


@dataclass(frozen=True)
class Modes:
    """Modes by operator name and by operator type, as the file of --op_precision_mode or --op_select_implmode says.

    ``rest``: mode of all other operators that have two forms. ``hf32``: --allow_hf32, None when not given.
    """

    by_name: Mapping[str, str] = field(default_factory=dict)
    by_type: Mapping[str, str] = field(default_factory=dict)
    rest: str | None = None
    hf32: bool | None = None


def load(op_precision_mode: str, op_select_implmode: str, optypelist: Sequence[str], allow_hf32: str) -> Modes:
    """What the options say; raises ``AscError`` with every problem of the file."""
    hf32 = {"true": True, "false": False}.get(allow_hf32)
    if op_precision_mode:
        problems: list[Problem] = []
        by_name, by_type = _parse(op_precision_mode, problems)
        if problems:
            raise AscError(problems)
        return Modes(by_name, by_type, None, hf32)
    mode = op_select_implmode.removesuffix("_for_all")
    if not mode:
        return Modes(hf32=hf32)
    if optypelist:
        return Modes({}, {kind: mode for name in optypelist for kind in _SYNONYMS.get(name, (name,))}, None, hf32)
    return Modes({}, {}, mode, hf32)


def _parse(path: str, problems: list[Problem]) -> tuple[dict[str, str], dict[str, str]]:
    option = "op_precision_mode"
    text = read(path, option, problems)
    found: dict[str, dict[str, str]] = {"ByOpType": {}, "ByNodeName": {}}
    if text is None:
        return {}, {}
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, default_section="")
    parser.optionxform = str  # type: ignore[method-assign,assignment]  # names are case sensitive
    try:
        # lines before the first section are types: the form of older versions
        parser.read_string(text if text.lstrip().startswith("[") else f"[ByOpType]\n{text}")
    except configparser.Error as error:
        problems.append(bad(option, path, str(error).splitlines()[0]))
        return {}, {}
    for section in parser.sections():
        if section not in found:
            hint = nearest(section, [*found])
            problems.append(bad(option, f"{path}: [{section}]", "sections are ByOpType and ByNodeName", hint))
            continue
        for key, value in parser.items(section):
            if value in impl_modes.BITS:
                found[section][key] = value
            else:
                reason = f"{value} is no mode; modes are {', '.join(impl_modes.BITS)}"
                problems.append(bad(option, f"{path}: {key}", reason, nearest(value, [*impl_modes.BITS])))
    return found["ByNodeName"], found["ByOpType"]


def apply(model: ir.Model, soc: Soc, modes: Modes) -> list[str]:
    """Store the modes on the operators of ``model``; returns warnings (names without operator, modes without effect)."""
    warnings: dict[str, None] = {}
    seen: set[str] = set()
    products = 0
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.domain != GE_DOMAIN or ops.lookup(node.op_type) is None:
            continue
        names, types = _identities(node)
        seen.update(names, types)
        products += is_hf32_product(node)
        mode = _asked(node, names, types, modes)
        if mode is None:
            if modes.rest is not None and node.op_type in impl_modes.TWO_FORMS | impl_modes.ONE_INSTRUCTION:
                node.meta[IMPL_MODE] = modes.rest
            continue
        why = _without_effect(node, mode, soc)
        if why:
            warnings[f"{mode} changes nothing for {node.op_type}: {why}."] = None
        if not (why and mode in _HF32_MODES):
            node.meta[IMPL_MODE] = mode
    for name in sorted({*modes.by_name, *modes.by_type} - seen):
        text = f"No operator of the compiled model is called {name} or of that type. {nearest(name, sorted(seen))}"
        warnings[text.rstrip()] = None
    if modes.hf32 and not products:
        warnings["--allow_hf32: no Conv or MatMul has float32 operands in this precision mode."] = None
    return list(warnings)


def _identities(node: ir.Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and types by which a file may mean the operator: its own, and those of the user's model."""
    origins = node.meta.get(ORIGIN_OPS, ())
    return (node.name or "", *(n for n, _ in origins)), (node.op_type, *(t for _, t in origins))


def _asked(node: ir.Node, names: Sequence[str], types: Sequence[str], modes: Modes) -> str | None:
    mode = next((modes.by_name[n] for n in names if n in modes.by_name), None)
    if mode is None and modes.hf32 is not None and is_hf32_product(node):
        mode = impl_modes.HI_FLOAT_32 if modes.hf32 else impl_modes.FLOAT_32
    return mode or next((modes.by_type[t] for t in types if t in modes.by_type), None)


def is_hf32_product(node: ir.Node) -> bool:
    """Whether the cube multiplies float32 operands of this operator."""
    spec = ops.lookup(node.op_type)
    if spec is None or spec.engine is not Engine.CUBE or not node.inputs:
        return False
    first = node.inputs[0]
    return first is not None and first.dtype == ir.DataType.FLOAT


def _without_effect(node: ir.Node, mode: str, soc: Soc) -> str:
    """Why ``mode`` changes nothing here, empty when it does (or when it asks for what is done anyway)."""
    if mode in _HF32_MODES:
        if "hf32" not in soc.cube_dtypes:
            return f"{soc.name} has no HF32"
        if not is_hf32_product(node):
            return "it is for Conv and MatMul operators whose operands are float32"
        return ""
    if mode == impl_modes.OUT_OF_BOUND_INDEX:
        return "" if node.op_type.startswith(INDEXED) else "it is for gather, scatter and segment operators"
    if mode in _VECTOR_MODES and node.op_type in impl_modes.ONE_INSTRUCTION:
        return "one instruction computes it, in either mode"
    if mode in _VECTOR_MODES and node.op_type not in impl_modes.TWO_FORMS:
        return "it has one implementation here"
    return ""
