"""The accuracy of a model with gears: the largest is judged layer by layer, of the others the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from asc_devkit.check import accuracy
from asc_devkit.check import data as samples_module
from asc_devkit.check.data import InputSpec, Samples
from asc_devkit.check.options import CheckOptions
from asc_devkit.check.reference import Reference
from asc_devkit.errors import AscError
from asc_devkit.npu.geared import GearedSession


def measure(
    section: dict[str, Any],
    session: GearedSession,
    reference: Reference,
    largest: Sequence[InputSpec],
    options: CheckOptions,
) -> None:
    """Add ``gears`` to the ``accuracy`` section of the largest gear; the whole passes when every gear does."""
    rows = []
    for index, gear in enumerate(session.gears):
        if index == session.largest:
            outputs, source = section["outputs"], section["source"]
        else:
            samples = _samples([replace(i, shape=gear.get(i.name, i.shape)) for i in largest], options)
            outputs, source = accuracy.outputs(session.session(index), reference, samples), samples.source
        passed = all(accuracy.accepted(output, options.threshold) for output in outputs)
        rows.append(
            {
                "inputs": {name: list(shape) for name, shape in gear.items()},
                "cosine": min((output["cosine"] for output in outputs), default=1.0),
                "source": source,
                "passed": passed,
            }
        )
    section["gears"] = rows
    section["passed"] = all(row["passed"] for row in rows)
    section["notes"] += [_note(index, row, index == session.largest) for index, row in enumerate(rows)]


def _samples(inputs: list[InputSpec], options: CheckOptions) -> Samples:
    """The user's data where they fit the gear's shapes (gears of the batch), else random values."""
    if options.data is not None:
        try:
            return samples_module.load(options.data, inputs, options.samples)
        except AscError:  # data of one picture size fit no other
            pass
    return samples_module.random_samples(inputs, options.seed)


def _note(index: int, row: dict[str, Any], largest: bool) -> str:
    shapes = ", ".join(f"{name} {shape}" for name, shape in row["inputs"].items())
    tail = "; layers, time and memory are of this gear" if largest else ""
    return f"Gear {index} ({shapes}): cosine {row['cosine']:.6f} on {row['source']}{tail}."
