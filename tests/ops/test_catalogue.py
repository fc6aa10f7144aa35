"""What the catalogue declares fits together, and covers what the vendor's parsers and the real models need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import defs

from asc_devkit import ops
from asc_devkit.ge.desc import Engine
from asc_devkit.ops import docs
from asc_devkit.ops.registry import atc_table, host_table
from tests.models import REAL_MODELS

STANDARD = {schema.name for schema in defs.get_all_schemas_with_history() if schema.domain == ""}
# The front end makes newer operators of these two.
GONE_BEFORE_THE_CANONICAL_OPSET = {"Scatter", "Upsample"}
GENERATIONS = {"310", "310P", "310B", "910", "910B", "910_93", "950"}
CORPUS = Path(onnx.__file__).parent / "backend/test/data"


def test_every_standard_operator_the_real_atc_parses_converts() -> None:
    parsed = STANDARD & set(atc_table("ai.onnx"))
    assert len(parsed) == 161
    assert {op for op in parsed if ops.lookup_onnx(op) is None} == GONE_BEFORE_THE_CANONICAL_OPSET


def test_an_operator_is_marked_rewritten_exactly_when_the_real_atc_has_no_parser() -> None:
    for op in ops.all_onnx():
        assert op.rewritten == (ops.atc_support(op.type) is None), op.type


def test_every_ge_operator_named_by_a_conversion_is_declared() -> None:
    for op in ops.all_onnx():
        for name in op.ge_types:
            assert ops.lookup(name) is not None, (op.type, name)


def test_every_operator_of_the_real_models_converts_or_says_why_not() -> None:
    used = {op for real in REAL_MODELS.values() for op in real.ops if "::" not in op and not op.startswith("com.")}
    assert len(used) > 60
    missing = {op for op in used - {"Constant"} if ops.lookup_onnx(op) is None}
    assert missing <= set(host_table())


@pytest.mark.parametrize("kind", ["simple", "light", "real"])
def test_every_operator_of_the_models_in_the_onnx_wheel_converts_or_says_why_not(kind: str) -> None:
    paths = sorted((CORPUS / kind).glob("**/*.onnx"))
    used = {
        node.op_type
        for path in paths
        for node in onnx.load(path, load_external_data=False).graph.node
        if not node.domain
    }
    missing = {op for op in used - {"Constant", "Upsample"} if ops.lookup_onnx(op) is None}
    assert missing <= set(host_table()) | {"StringNormalizer", "Gradient"}


def test_facts_are_within_their_vocabulary() -> None:
    for op in ops.all_ge():
        assert set(op.floats) <= GENERATIONS | {"*"}, op.type
        assert all(names <= {"fp16", "bf16", "fp32"} for names in op.floats.values()), op.type
        assert set(op.defaults) <= set(op.attrs), op.type
        if op.engine is Engine.CUBE:
            assert op.floats["310P"] == {"fp16"} and "bf16" in op.floats["910B"], op.type
        if op.bounds is not None:
            assert op.bounds[0] < op.bounds[1]


def test_the_page_of_supported_operators_is_current() -> None:
    page = Path(__file__).resolve().parents[2] / "docs/supported_operators.md"
    assert page.read_text(encoding="utf-8") == docs.render(), "run `make docs`"


def test_importing_the_catalogue_costs_little_more_than_importing_the_ir() -> None:
    code = (
        "import onnx_ir, time; t = time.process_time(); import asc_devkit.ops as o; o.lookup('Conv2D');"
        "print(time.process_time() - t)"
    )
    spent = min(float(subprocess.check_output([sys.executable, "-c", code], text=True)) for _ in range(3))
    assert spent < 0.5  # a guard against accidents, not a benchmark
