"""--keep_dtype and --modify_mixlist change the types in the OM and the numbers of the virtual NPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from asc_devkit import atc, npu
from asc_devkit.atc.options import from_flags
from asc_devkit.atc.select.overrides import load
from asc_devkit.errors import AscError
from asc_devkit.ge.desc import MEMBERS
from tests.check.test_localisation import overflowing


def _compile(folder: Path, **flags: str) -> atc.Result:
    model = overflowing(folder / "m.onnx")
    base = {"model": str(model), "framework": "5", "output": str(folder / "m"), "soc_version": "Ascend910B3"}
    return atc.compile(from_flags({**base, **flags}))


def _finite(result: atc.Result) -> bool:
    x = np.random.default_rng(3).standard_normal((8, 64)).astype(np.float32)
    (y,) = npu.load(result.om_path, threads=1).run({"x": x}).values()
    w = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) * 60
    expected = np.sqrt((np.maximum(x @ w, 0) ** 2).mean(1, keepdims=True)) * 0.01
    return bool(np.allclose(y, expected, rtol=1e-2))


def test_keeping_the_layers_that_overflow_repairs_the_result(tmp_path: Path) -> None:
    assert not _finite(_compile(tmp_path))
    keep = tmp_path / "keep.cfg"
    keep.write_text("square\nOpType::ReduceMean\nroot\n")
    result = _compile(tmp_path, keep_dtype=str(keep))
    assert _finite(result)
    assert not result.warnings


def test_a_misspelt_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    keep = tmp_path / "keep.cfg"
    keep.write_text("sqare\n")
    assert any("Did you mean square?" in w for w in _compile(tmp_path, keep_dtype=str(keep)).warnings)


def test_a_blacklisted_type_keeps_float32_in_a_mixed_mode(tmp_path: Path) -> None:
    mode = {"precision_mode": "allow_mix_precision_fp16"}
    mix = tmp_path / "mix.json"
    mix.write_text('{"white-list": {"to-add": ["Mul", "ReduceMean", "ReduceMeanD", "Sqrt", "Relu"]}}')
    assert not _finite(_compile(tmp_path, modify_mixlist=str(mix), **mode))
    mix.write_text('{"black-list": {"to-add": ["Mul", "Square", "ReduceMean", "ReduceMeanD", "Sqrt"]}}')
    assert _finite(_compile(tmp_path, modify_mixlist=str(mix), **mode))


def test_all_problems_of_both_files_are_reported_at_once(tmp_path: Path) -> None:
    keep, mix = tmp_path / "keep.cfg", tmp_path / "mix.json"
    keep.write_text("good\nOpType::\n")
    mix.write_text('{"blak-list": {}, "white-list": {"to-add": "Mul"}}')
    with pytest.raises(AscError) as caught:
        load(str(keep), str(mix))
    assert [p.nodes[0].rsplit("/", 1)[1] for p in caught.value.problems] == [
        "keep.cfg:2",
        "mix.json: blak-list",
        "mix.json: white-list.to-add",
    ]


def _kinds(result: atc.Result) -> dict[str, list[str]]:
    """Types of the first input and of the outputs of every operator, members of fused groups included."""
    nodes = [
        n
        for top in result.model.graph
        for n in (list(top.attributes[MEMBERS].as_graph()) if MEMBERS in top.attributes else [top])
    ]
    return {n.name or "": [v.dtype.name for v in (*n.inputs[:1], *n.outputs) if v and v.dtype] for n in nodes}


def test_customised_types_come_before_kept_ones_and_show_in_the_om(tmp_path: Path) -> None:
    custom, keep = tmp_path / "custom.cfg", tmp_path / "keep.cfg"
    custom.write_text(
        "square::InputDtype:float16,float16,OutputDtype:float16\nOpType::ReduceMean:InputDtype:float32,OutputDtype:float32\n"
    )
    keep.write_text("square\nOpType::ReduceMean\nroot\n")
    assert _finite(_compile(tmp_path, keep_dtype=str(keep)))
    result = _compile(tmp_path, keep_dtype=str(keep), customize_dtypes=str(custom))
    kinds = _kinds(result)
    assert kinds["square"] == ["FLOAT16", "FLOAT16"]
    assert not _finite(result)  # the square overflows although it is listed to be kept


def test_an_operator_may_read_one_type_and_write_another(tmp_path: Path) -> None:
    custom = tmp_path / "custom.cfg"
    custom.write_text(
        "square::InputDtype:float16,float16,OutputDtype:float32\n"
        "OpType::ReduceMean:InputDtype:float32,OutputDtype:float32\n"
        "root::InputDtype:float,OutputDtype:float16\n"
    )
    result = _compile(tmp_path, customize_dtypes=str(custom))
    kinds = _kinds(result)
    assert kinds["square"] == ["FLOAT16", "FLOAT"]
    assert kinds["root"] == ["FLOAT", "FLOAT16"]
    assert _finite(result)


@pytest.mark.parametrize(
    ("soc", "line", "said"),
    [
        ("Ascend910B3", "sqare::InputDtype:float16,OutputDtype:float16", "Did you mean square?"),
        ("Ascend910B3", "root::InputDtype:float16,float16,OutputDtype:float16", "has 1 inputs, the line gives 2 types"),
        ("Ascend310P3", "root::InputDtype:bfloat16,OutputDtype:float16", "does not take bf16 on Ascend310P3"),
    ],
)
def test_what_cannot_be_customised_is_said(tmp_path: Path, soc: str, line: str, said: str) -> None:
    custom = tmp_path / "custom.cfg"
    custom.write_text(f"{line}\n")
    warnings = _compile(tmp_path, customize_dtypes=str(custom), soc_version=soc).warnings
    assert any(said in w for w in warnings), warnings


def test_malformed_lines_of_customize_dtypes_are_listed(tmp_path: Path) -> None:
    custom = tmp_path / "custom.cfg"
    custom.write_text("a::InputDtype:float61,OutputDtype:float16\nno types here\nOpType::::InputDtype:float16\n\n")
    with pytest.raises(AscError) as caught:
        load("", "", str(custom))
    assert [p.nodes[0].rsplit(":", 1)[1] for p in caught.value.problems] == ["1", "2", "3"]
    assert "Did you mean float16?" in caught.value.problems[0].fix
