"""A short run of the fuzzer on every change (``benchmarks/fuzz.py`` runs long ones), and the fuzzer's own honesty."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz import pool
from tests.fuzz.seeds import onnx_files, seeds
from tests.models import model_path

ME = "tests.fuzz.test_fuzz"


def fails_now_and_then(path: Path, folder: Path, origin: str) -> str:
    """A target with every kind of misbehaviour, chosen by the damaged file's content."""
    turn = sum(path.read_bytes()[:4000]) % 6
    if turn == 0:
        raise ValueError("not an AscError")
    if turn == 1:
        ctypes.string_at(0)
    if turn == 2:
        time.sleep(60)
    if turn == 3:
        np.zeros(1 << 40, np.uint8).fill(1)
    return "fine"


def test_the_fuzzer_notices_tracebacks_hangs_crashes_and_memory() -> None:
    todo = pool.cases([model_path("melspectrogram")], "onnx", 14, seed=4)
    outcome = pool.run(todo, f"{ME}:fails_now_and_then", seconds=1)
    assert {"traceback", "crash", "hang", "memory", "fine"} <= set(outcome.counts)
    assert sum(outcome.counts.values()) == 14
    assert len(outcome.failures) == 14 - outcome.counts["fine"]


def test_a_case_is_made_the_same_every_time() -> None:
    for case in pool.cases(onnx_files(), "onnx", 12, seed=9):
        assert pool.damaged(case) == pool.damaged(case)


def test_most_damage_changes_the_file() -> None:
    todo = pool.cases([model_path("silero_lstm")], "onnx", 60, seed=3)
    original = model_path("silero_lstm").read_bytes()
    assert sum(pool.damaged(case)[0] != original for case in todo) > 50


@pytest.mark.parametrize(
    ("kind", "target", "words"),
    [
        ("onnx", "load_onnx", {"loaded", "refused"}),
        ("onnx", "optimise", {"equal", "unjudged", "refused"}),
        ("om", "read_om", {"read", "refused"}),
    ],
)
def test_damaged_files_are_refused_or_come_out_right(kind: str, target: str, words: set[str]) -> None:
    with seeds(kind) as files:
        outcome = pool.run(pool.cases(files, kind, 250, seed=11), target)
    assert outcome.failures == []
    assert set(outcome.counts) == words
