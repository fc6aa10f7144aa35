"""Files that do not fit an input are refused with the file or the input they are about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from asc_devkit.errors import AscError
from asc_devkit.npu import loading, tensor_files
from asc_devkit.npu.feeds import Tensor

IMAGE = Tensor("x", (1, 3), np.dtype(np.float32))
MASK = Tensor("mask", (1,), np.dtype(np.int64))


@pytest.mark.provokes("ASC4020", "ASC4021", "ASC4022", "ASC4023", "ASC4024")
def test_each_way_not_to_fit_has_a_code_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"not numpy")
    (tmp_path / "x.bin").write_bytes(bytes(11))
    (tmp_path / "empty").mkdir()
    for work, code, named in (
        (lambda: tensor_files.read(tmp_path / "x.npy", IMAGE), "ASC4020", "x.npy"),
        (lambda: tensor_files.read(tmp_path / "x.bin", IMAGE), "ASC4021", "11 bytes"),
        (lambda: tensor_files.samples([str(tmp_path / "empty")], [IMAGE]), "ASC4022", "no .npy or .bin"),
        (lambda: tensor_files.samples([str(tmp_path)], [IMAGE, MASK]), "ASC4022", "'mask'"),
        (lambda: tensor_files.samples(["y=missing"], [IMAGE]), "ASC4023", "inputs are x"),
        (lambda: tensor_files.random_inputs([Tensor("x", (1 << 31,), np.dtype(np.float32))]), "ASC4024", "8192 MiB"),
    ):
        with pytest.raises(AscError) as refused:
            work()
        (problem,) = refused.value.problems
        assert problem.code == code
        assert named in problem.what + problem.fix


def test_a_raw_file_of_an_fp16_input_may_hold_float32(tmp_path: Path) -> None:
    values = np.array([[1, 2, 3]], np.float32)
    (tmp_path / "x.bin").write_bytes(values.tobytes())
    assert (tensor_files.read(tmp_path / "x.bin", Tensor("x", (1, 3), np.dtype(np.float16))) == values).all()


@pytest.mark.provokes("ASC4009")
def test_an_element_type_that_nobody_computes_is_named_with_its_value() -> None:
    value = ir.Value(name="odd", shape=ir.Shape((2,)), type=ir.TensorType(ir.DataType.UNDEFINED))
    with pytest.raises(AscError, match="odd"):
        loading._rows([value], "input")
