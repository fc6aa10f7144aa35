"""The accuracy part of a check: both models over the same inputs, outputs and layers compared, task accuracy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from asc_devkit import npu
from asc_devkit.check import layers as layer_module
from asc_devkit.check.data import Samples
from asc_devkit.check.labels import TopOne
from asc_devkit.check.reference import Reference
from asc_devkit.precision import Accumulator

Array = np.ndarray[Any, Any]
Progress = Callable[[str, float], None]
SCALE_SLACK: Final = 2.0
_NUMERICS: Final = ("soc_version", "precision_mode", "overflow_mode", "rounded_to", "reference_operators")


def measure(
    session: npu.Session,
    graph: Any,
    reference: Reference,
    samples: Samples,
    labels: Array | None,
    threshold: float,
    progress: Progress,
) -> dict[str, Any]:
    """The ``accuracy`` section of the report: outputs over all samples, layers over the first batch, top-1 if labels.

    Outputs are summed up batch by batch, so memory does not grow with the number of samples. Layer values are fetched
    in chunks of bounded size; every chunk runs both models again on the same batch.
    """
    made, task = _outputs(session, reference, samples, labels, progress)
    rows, first, noise = _layers(session, graph, reference, samples.batch(0), progress)
    worst = min(made, key=lambda o: o["cosine"], default=None)
    return {
        "samples": samples.rows,
        "source": samples.source,
        "threshold": threshold,
        "noise": noise,
        "numerics": {key: session.info[key] for key in _NUMERICS if key in session.info},
        "reference": "original model, fp32, ONNX Runtime on this CPU",
        "outputs": made,
        "worst_output": worst["name"] if worst else None,
        "passed": all(accepted(o, threshold) for o in made),
        "layers": rows,
        "first_divergence": first["name"] if first else None,
        "task": task.result() if task is not None else None,
        "notes": _notes(labels, task, samples),
    }


def outputs(session: npu.Session, reference: Reference, samples: Samples) -> list[dict[str, Any]]:
    """The rows of all outputs over all samples, nothing else."""
    return _outputs(session, reference, samples, None, lambda stage, share: None)[0]


def layers(session: npu.Session, graph: Any, reference: Reference, batch: dict[str, Array]) -> list[dict[str, Any]]:
    """The judged rows of all layers over one batch."""
    return _layers(session, graph, reference, batch, lambda stage, share: None)[0]


def accepted(output: dict[str, Any], threshold: float) -> bool:
    """Whether an output is close enough: its cosine, no new NaN, and its length.

    Cosine does not see a wrong scale. Vectors of equal length and cosine ``c`` are ``sqrt(2 (1 - c))`` of that length
    apart; more than ``SCALE_SLACK`` times that distance at the threshold means that the scale is off.
    """
    distance = SCALE_SLACK * (2 * (1 - threshold)) ** 0.5
    return bool(
        output["cosine"] >= threshold
        and output["nan_actual"] <= output["nan_expected"]
        and (output["relative_euclidean"] <= distance or output["max_abs"] == 0 or threshold == 1)
    )


def _outputs(
    session: npu.Session, reference: Reference, samples: Samples, labels: Array | None, progress: Progress
) -> tuple[list[dict[str, Any]], TopOne | None]:
    names = list(reference.outputs)
    original = reference.session([])
    sums = {name: Accumulator() for name in names}
    types: dict[str, str] = {}
    task: TopOne | None = None
    for number in range(len(samples)):
        progress("compare outputs", 0.5 * number / len(samples))
        batch = samples.batch(number)
        expected = reference.run(original, batch, names)
        for name, value in zip(names, session.run(batch).values(), strict=False):
            before = _real_rows(expected[name], samples, number)
            after = _as_shaped(_real_rows(value, samples, number), before.shape)
            sums[name].add(before, after)
            types[name] = str(value.dtype)
            if labels is not None and task is None and number == 0 and TopOne.fits(before):
                task = TopOne(name, labels)
            if task is not None and task.output == name and TopOne.fits(before):
                task.add(before, after)
    return [{"name": n, "dtype": types.get(n, ""), **sums[n].result().summary()} for n in names], task


def _real_rows(value: Array, samples: Samples, number: int) -> Array:
    """Leave out the rows that only pad the last batch; values without a batch axis count as one row."""
    array = np.atleast_1d(np.asarray(value))
    size = samples.inputs[0].size if samples.inputs else 0
    rows = samples.valid(number)
    return array[:rows] if array.shape[0] == size and rows < size else array


def _as_shaped(actual: Array, shape: tuple[int, ...]) -> Array:
    """``actual`` in the original's shape; values that do not correspond at all count as NaN."""
    if actual.shape == shape:
        return actual
    return actual.reshape(shape) if actual.size == np.prod(shape, dtype=np.int64) else np.full(shape, np.nan)


def _notes(labels: Array | None, task: TopOne | None, samples: Samples) -> list[str]:
    if labels is None:
        return []
    if task is None:
        return ["No output has one row of scores per sample, so the labels were not used."]
    if task.samples < samples.rows:
        return [f"There are {len(labels)} labels for {samples.rows} samples: the first {task.samples} were judged."]
    return []


def _layers(
    session: npu.Session, graph: Any, reference: Reference, batch: dict[str, Array], progress: Progress
) -> tuple[list[dict[str, Any]], dict[str, Any] | None, float]:
    found = layer_module.comparable(graph, reference.available)
    rows: list[dict[str, Any]] = []
    parts = list(layer_module.chunks(found))
    for number, part in enumerate(parts):
        progress("compare layers", 0.5 + 0.5 * number / len(parts))
        tensors = [layer.tensor for layer in part]
        expected = reference.run(reference.session(tensors), batch, tensors)
        _, values = session.run_with_values(batch, [layer.value for layer in part])
        for layer in part:
            if layer.value in values:
                row = layer_module.measure(layer, np.asarray(expected[layer.tensor]), values[layer.value])
                if row is not None:
                    rows.append(row)
    return rows, layer_module.judge(rows, found), layer_module.noise(found)
