"""``op_validate`` from Python: arrays, torch tensors and files; one and many."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

import op_validate
from asc_devkit.errors import AscError

RNG = np.random.default_rng(0)
GOLDEN = RNG.standard_normal((1, 16, 8, 8)).astype(np.float32)


def test_a_good_result_passes_with_its_figures() -> None:
    report = op_validate.compare(GOLDEN, GOLDEN + np.float32(1e-5) * np.abs(GOLDEN), op_name="Conv2d")
    assert report.passed and report.cause is None
    assert report.metrics.max_abs == pytest.approx(1e-5 * np.abs(GOLDEN).max(), rel=0.05)
    assert "Conv2d PASS" in str(report)


def test_a_wrong_channel_is_named_with_places_and_cause() -> None:
    wrong = GOLDEN.copy()
    wrong[0, 5] = 3.0
    report = op_validate.compare(GOLDEN, wrong, op_name="Conv2d", criterion="combined", rel_tolerance=1e-3)
    assert not report.passed and report.cause is not None
    assert report.cause.kind in ("channel", "stuck_value")
    assert {place[1] for place, _, _ in report.worst} == {5}
    place, expected, actual = report.worst[0]
    assert expected == GOLDEN[place] and actual == 3.0
    assert report.failing == 64


def test_torch_tensors_and_other_types() -> None:
    half = torch.from_numpy(GOLDEN).to(torch.bfloat16).requires_grad_()
    report = op_validate.compare(torch.from_numpy(GOLDEN), half, "Add", criterion="cann-eco")
    assert report.dtype == "bfloat16" and report.passed
    assert op_validate.compare(GOLDEN, GOLDEN.astype(ml_dtypes.bfloat16), criterion="cann-eco").passed
    assert op_validate.compare([1, 2, 3], [1, 2, 3]).passed
    assert op_validate.compare(np.float32(1), np.float32(1)).passed


def test_files_are_taken_too(tmp_path: Path) -> None:
    np.save(tmp_path / "g.npy", GOLDEN)
    torch.save(torch.from_numpy(GOLDEN), tmp_path / "a.pt")
    assert op_validate.compare(tmp_path / "g.npy", str(tmp_path / "a.pt")).metrics.identical
    with pytest.raises(AscError, match="ASC5101"):
        op_validate.compare(tmp_path / "none.npy", GOLDEN)


def test_shapes_and_standards_are_checked() -> None:
    with pytest.raises(AscError, match="ASC5001"):
        op_validate.compare(GOLDEN, GOLDEN[:, :8])
    with pytest.raises(AscError, match="ASC5110"):
        op_validate.compare(GOLDEN, GOLDEN, criterion="cann-ecu")


def test_a_batch_has_a_summary() -> None:
    pairs = {
        "good": (GOLDEN, GOLDEN),
        "scaled": (GOLDEN, GOLDEN * 1.5),
        "nan": (GOLDEN, np.where(GOLDEN > 2, np.nan, GOLDEN)),
    }
    found = op_validate.batch(pairs, criterion="combined")
    facts = found.summary()
    assert not found.passed and facts["failed"] == ["scaled", "nan"]
    assert facts["levels"] == {"pass": 1, "error": 2} and facts["causes"] == {"scale": 1, "nan": 1}
    assert str(found).endswith("3 operators: 1 pass, 2 error")
    assert not op_validate.batch({}).passed
