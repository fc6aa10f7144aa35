"""Faults put into nets of 60 to 250 operators are found, named by kind, and nobody else is accused. Prints the figures."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from asc_devkit.precision.comparison import Options, compare_paths
from asc_devkit.precision.comparison.pairs import PairOptions
from asc_devkit.precision.local import localise
from asc_devkit.precision.policy import Policy
from asc_devkit.precision.sources import scan
from tests.precision.nets import Case, make

SEEDS = range(20)
TIME = 1700000000000000


@functools.cache
def case(seed: int) -> Case:
    return make(seed)


@dataclass
class Score:
    """Counts over all seeds: faulty operators named, missed, healthy ones named, kinds right."""

    named: int = 0
    missed: list[str] = field(default_factory=list)
    accused: list[str] = field(default_factory=list)
    kinds: int = 0

    def add(self, seed: int, wanted: dict[str, str], found: dict[str, str]) -> None:
        self.named += len(wanted.keys() & found.keys())
        self.missed += [f"{seed}:{op} ({kind})" for op, kind in wanted.items() if op not in found]
        self.accused += [f"{seed}:{op} ({kind})" for op, kind in found.items() if op not in wanted]
        self.kinds += sum(found.get(op) == kind for op, kind in wanted.items())

    @property
    def recall(self) -> float:
        return self.named / (self.named + len(self.missed))

    @property
    def precision(self) -> float:
        return self.named / (self.named + len(self.accused))

    def __str__(self) -> str:
        return (
            f"named {self.named}, missed {self.missed}, accused {self.accused}; recall {self.recall:.1%}, "
            f"precision {self.precision:.1%}, kinds right {self.kinds / self.named:.1%}"
        )


def tensor_files(folder: Path, arrays: dict[str, np.ndarray], longer: bool) -> Path:
    """One .npy for each tensor; ``longer`` widens float16 to float32, as converters of dumps do."""
    folder.mkdir()
    for name, array in arrays.items():
        wide = longer and array.dtype == np.float16
        np.save(folder / f"{name}.npy", array.astype(np.float32) if wide else array)
    return folder


def operator_files(folder: Path, model: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> Path:
    """Inputs and outputs of every operator under the names of converted NPU dumps."""
    folder.mkdir()
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        places = [("input", i, name) for i, name in enumerate(node.input)]
        places += [("output", i, name) for i, name in enumerate(node.output)]
        for side, index, name in places:
            array = arrays[name] if name in arrays else weights[name]
            np.save(folder / f"{node.op_type}.{node.name}.1.0.{TIME}.{side}.{index}.npy", array)
    return folder


def test_with_the_model_every_fault_is_found_and_nobody_else_accused(tmp_path: Path) -> None:
    score, kinds, benign = Score(), set(), 0
    for seed in SEEDS:
        net = case(seed)
        golden = scan(tensor_files(tmp_path / f"golden{seed}", net.golden, False))
        target = scan(tensor_files(tmp_path / f"target{seed}", net.target, longer=seed % 2 == 1))
        rows = localise(net.model, target, golden)
        assert len(rows) == len(net.model.graph.node)
        score.add(seed, net.faults, {row.op: row.cause.kind for row in rows if row.faulty})
        kinds |= set(net.faults.values())
        benign += sum(row.verdict == "cancels" for row in rows if row.op in net.cancels)
    print(f"with the model: {score}; cancellations recognised: {benign}")
    assert len(kinds) == 10
    assert not score.missed
    assert not score.accused
    assert score.kinds >= 0.9 * score.named
    assert benign > 20


def test_without_the_model_inputs_and_outputs_tell_as_much(tmp_path: Path) -> None:
    score = Score()
    for seed in SEEDS:
        net = case(seed)
        golden = operator_files(tmp_path / f"golden{seed}", net.model, net.golden)
        target = operator_files(tmp_path / f"target{seed}", net.model, net.target)
        result = compare_paths(golden, target, Options(PairOptions(Policy("cann-eco"))))
        score.add(seed, net.faults, {f.op: f.kind for f in result.findings})
    print(f"tensors only: {score}")
    assert score.recall >= 0.95
    assert score.precision >= 0.90
    assert score.kinds >= 0.9 * score.named


@pytest.fixture(params=[2, 3, 4, 5], ids=["attention", "branching", "convolutional", "perceptron"])
def healthy(request: pytest.FixtureRequest) -> Iterator[Case]:
    yield make(request.param, faults_wanted=0)


def test_a_healthy_net_with_cancellations_accuses_nobody(healthy: Case, tmp_path: Path) -> None:
    target = scan(tensor_files(tmp_path / "target", healthy.target, False))
    golden = scan(tensor_files(tmp_path / "golden", healthy.golden, False))
    assert healthy.cancels
    assert [row.op for row in localise(healthy.model, target, golden) if row.faulty] == []
