"""ONNX's backend suite through the whole chain (convert, ``.om``, virtual NPU), against the table of known gaps.

Runs ``onnx.backend.test`` in this process: every test that fails must stand in ``known_gaps.csv`` with its reason, and
every test that stands there must fail. Tests that would download something are skipped and counted.
"""

from __future__ import annotations

import csv
import unittest
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from asc_devkit.backend import VirtualNpuBackend

KNOWN_GAPS = Path(__file__).with_name("known_gaps.csv")
LEAST = {"NodeModel": 1869, "SimpleModel": 21, "PyTorchConvertedModel": 82, "PyTorchOperatorModel": 35, "RealModel": 9}


def _downloads() -> set[str]:
    """Tests whose model is neither made by the suite nor part of onnx's wheel."""
    kinds = ("node", "real", "simple", "pytorch-converted", "pytorch-operator")
    cases = [case for kind in kinds for case in load_model_tests(kind=kind)]
    return {f"{c.name}_cpu" for c in cases if c.url and not c.url.startswith("onnx/backend/test/data/light/")}


def _outcomes() -> Iterator[tuple[str, str, str, str]]:
    """(kind, test, "passed" | "failed" | "skipped", what was said)."""
    remote = _downloads()
    for kind, items in Runner(VirtualNpuBackend)._test_items.items():
        for name, item in items.items():
            if not name.endswith("_cpu"):
                continue
            if name in remote:
                yield kind, name, "skipped", "its model would have to be downloaded"
                continue
            try:
                item.func(None)
            except unittest.SkipTest as error:
                yield kind, name, "skipped", str(error)
            except Exception as error:
                yield kind, name, "failed", f"{type(error).__name__}: {error}"[:300]
            else:
                yield kind, name, "passed", ""


@pytest.mark.conformance
@pytest.mark.filterwarnings("ignore")
def test_exactly_the_known_gaps_of_the_onnx_backend_suite_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))
    with KNOWN_GAPS.open(newline="", encoding="utf-8") as handle:
        gaps = {row["test"]: row["reason"] for row in csv.DictReader(handle)}
    assert all(len(reason) > 20 for reason in gaps.values())

    outcomes = list(_outcomes())
    table = Counter((kind, result) for kind, _, result, _ in outcomes)
    print(f"\n{'kind':24}{'passed':>8}{'failed':>8}{'skipped':>8}")
    for kind in dict.fromkeys(kind for kind, *_ in outcomes):
        print(f"{kind:24}" + "".join(f"{table[kind, result]:8}" for result in ("passed", "failed", "skipped")))

    failed = {name.removesuffix("_cpu"): said for _, name, result, said in outcomes if result == "failed"}
    assert {name: said for name, said in failed.items() if name not in gaps} == {}
    assert sorted(set(gaps) - set(failed)) == []
    assert {kind: table[kind, "passed"] for kind in LEAST if table[kind, "passed"] < LEAST[kind]} == {}
