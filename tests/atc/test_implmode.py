"""--op_precision_mode, --op_select_implmode and --allow_hf32: what is stored on which operator, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from asc_devkit import atc, om
from asc_devkit.atc.options import from_flags
from asc_devkit.atc.select import implmode
from asc_devkit.errors import AscError
from asc_devkit.ge.impl_modes import BITS
from tests.check.test_localisation import _save


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Softmax", ["a"], ["s"], "soft"),
        helper.make_node("Exp", ["s"], ["e"], "power"),
        helper.make_node("MatMul", ["e", "w"], ["y"], "second"),
    ]
    w = np.random.default_rng(0).standard_normal((8, 8)) * 0.1
    return _save(tmp_path / "m.onnx", nodes, {"w": w}, [4, 8], [4, 8])


def _convert(model: Path, soc: str = "Ascend910B3", **flags: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """``_op_impl_mode_enum`` of each operator that has one, by name; warnings."""
    base = {"model": str(model), "framework": "5", "output": str(model.with_suffix("")), "soc_version": soc}
    result = atc.compile(from_flags({**base, **flags}))
    ops = [op for graph in om.read(result.om_path).model_def.graph for op in graph.op]
    return {op.name: op.attr["_op_impl_mode_enum"].i for op in ops if "_op_impl_mode_enum" in op.attr}, result.warnings


def _ini(model: Path, text: str) -> str:
    path = model.with_name("modes.ini")
    path.write_text(text)
    return str(path)


def test_nothing_is_stored_without_an_option(model: Path) -> None:
    assert _convert(model) == ({}, ())


def test_the_mode_applies_to_operators_with_two_implementations_or_to_those_listed(model: Path) -> None:
    assert _convert(model, op_select_implmode="high_precision")[0] == {"soft": 4, "power": 4}
    listed = {"op_select_implmode": "high_performance", "optypelist_for_implmode": "SoftmaxV2"}
    assert _convert(model, **listed) == ({"soft": 2}, ())


def test_the_file_names_operators_and_types_and_names_come_first(model: Path) -> None:
    ini = _ini(model, "[ByOpType]\nSoftmaxV2=high_precision\n\n[ByNodeName]\nsoft=super_performance\n")
    stored, warnings = _convert(model, op_precision_mode=ini, op_select_implmode="high_precision")
    assert stored == {"soft": 8}  # the file replaces --op_select_implmode: nothing for "power"
    assert warnings == ()


def test_lines_without_a_section_are_types(model: Path) -> None:
    assert _convert(model, op_precision_mode=_ini(model, "SoftmaxV2=high_performance\n"))[0] == {"soft": 2}


def test_hf32_order_is_name_then_option_then_type(model: Path) -> None:
    text = "[ByOpType]\nMatMul=enable_hi_float_32_execution\n[ByNodeName]\nfirst=enable_hi_float_32_execution\n"
    fp32 = {"precision_mode": "must_keep_origin_dtype", "op_precision_mode": _ini(model, text)}
    assert _convert(model, **fp32)[0] == {"first": 0x40, "second": 0x40}
    assert _convert(model, **fp32, allow_hf32="false")[0] == {"first": 0x40, "second": 0x20}


@pytest.mark.parametrize(
    ("soc", "flags", "said"),
    [
        ("Ascend910B3", {"allow_hf32": "true"}, "no Conv or MatMul has float32 operands"),
        ("Ascend310P3", {"text": "[ByNodeName]\nfirst=enable_hi_float_32_execution"}, "Ascend310P3 has no HF32"),
        ("Ascend910B3", {"text": "[ByNodeName]\npower=high_performance"}, "one instruction"),
        ("Ascend910B3", {"text": "[ByNodeName]\nsofd=high_precision"}, "Did you mean soft?"),
        ("Ascend910B3", {"text": "[ByOpType]\nSoftmaxV2=support_out_of_bound_index"}, "gather, scatter and segment"),
    ],
)
def test_a_mode_that_changes_nothing_is_said(model: Path, soc: str, flags: dict[str, str], said: str) -> None:
    text = flags.pop("text", None)
    _, warnings = _convert(model, soc, **flags, **({"op_precision_mode": _ini(model, text)} if text else {}))
    assert [said in w for w in warnings] == [True]


def test_all_problems_of_the_file_are_listed(model: Path) -> None:
    text = "[ByOpTyp]\nA=high_precision\n[ByNodeName]\nsoft=high_precison\nother=fast\n"
    with pytest.raises(AscError) as caught:
        implmode.load(_ini(model, text), "", (), "")
    said = [f"{p.what} {p.fix}" for p in caught.value.problems]
    assert len(said) == 3
    assert "ByOpType" in said[0]
    assert "Did you mean high_precision?" in said[1]
    assert all(name in said[2] for name in BITS)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", b"[a", b"[ByOpType]\nno equals sign", b"[ByOpType]\nA=high_precision\nA=x"]
)
def test_damaged_files_are_refused_with_the_option_named(model: Path, content: bytes) -> None:
    path = model.with_name("modes.ini")
    path.write_bytes(content)
    with pytest.raises(AscError) as caught:
        implmode.load(str(path), "", (), "")
    assert all("op_precision_mode" in p.what for p in caught.value.problems)
