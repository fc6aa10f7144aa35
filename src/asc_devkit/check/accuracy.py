"""The accuracy part of a check: both models over the same inputs, outputs and layers compared, task accuracy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asc_devkit import npu
from asc_devkit.check import layers as layer_module
from asc_devkit.check.data import Samples
from asc_devkit.check.reference import Reference
from asc_devkit.precision import compare

Array = np.ndarray[Any, Any]
Progress = Callable[[str, float], None]


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

    Layer values are fetched in chunks of bounded size; every chunk runs both models again on the same batch.
    """
    names = list(reference.outputs)
    original = reference.session([])
    pairs: dict[str, tuple[list[Array], list[Array]]] = {name: ([], []) for name in names}
    for number, batch in enumerate(samples.batches):
        progress("compare outputs", number / len(samples.batches))
        expected = reference.run(original, batch, names)
        actual = session.run(batch)
        for name, value in zip(names, actual.values(), strict=False):
            pairs[name][0].append(_real_rows(expected[name], samples, number))
            pairs[name][1].append(_real_rows(value, samples, number))
    outputs = [_output(name, np.concatenate(a), np.concatenate(b)) for name, (a, b) in pairs.items()]
    rows, first = _layers(session, graph, reference, samples.batches[0], progress)
    worst = min(outputs, key=lambda o: o["cosine"], default=None)
    task = None
    if labels is not None and names:
        task = _task(pairs, labels)
    return {
        "samples": samples.rows,
        "source": samples.source,
        "threshold": threshold,
        "numerics": session.info.get("numerics", {}),
        "reference": "original model, fp32, ONNX Runtime on this CPU",
        "outputs": outputs,
        "worst_output": worst["name"] if worst else None,
        "passed": all(o["cosine"] >= threshold and o["nan_actual"] <= o["nan_expected"] for o in outputs),
        "layers": rows,
        "first_divergence": first["name"] if first else None,
        "task": task,
    }


def _real_rows(value: Array, samples: Samples, number: int) -> Array:
    """Leave out the rows that only pad the last batch; values without a batch axis count as one row."""
    array = np.atleast_1d(np.asarray(value))
    rows = samples.valid[number]
    full = next(iter(samples.batches[number].values()))
    if full.ndim and array.shape[0] == full.shape[0] and rows < full.shape[0]:
        return array[:rows]
    return array


def _output(name: str, expected: Array, actual: Array) -> dict[str, Any]:
    if expected.shape != actual.shape:
        actual = actual.reshape(expected.shape) if actual.size == expected.size else np.resize(actual, expected.shape)
    return {"name": name, "dtype": str(actual.dtype), **compare(expected, actual).as_dict()}


def _layers(
    session: npu.Session, graph: Any, reference: Reference, batch: dict[str, Array], progress: Progress
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    found = layer_module.comparable(graph, reference.available)
    rows: list[dict[str, Any]] = []
    parts = list(layer_module.chunks(found))
    for number, part in enumerate(parts):
        progress("compare layers", number / len(parts))
        tensors = [layer.tensor for layer in part]
        expected = reference.run(reference.session(tensors), batch, tensors)
        _, values = session.run_with_values(batch, [layer.value for layer in part])
        for layer in part:
            if layer.value in values:
                row = layer_module.measure(layer, np.asarray(expected[layer.tensor]), values[layer.value])
                if row is not None:
                    rows.append(row)
    return rows, layer_module.judge(rows, found)


def _task(pairs: dict[str, tuple[list[Array], list[Array]]], labels: Array) -> dict[str, Any] | None:
    """Top-1 accuracy of the first output that has one row of scores per label."""
    for name, (expected, actual) in pairs.items():
        before, after = np.concatenate(expected), np.concatenate(actual)
        if before.ndim < 2 or before.shape[0] == 0:
            continue
        count = min(len(labels), len(before))
        first = before[:count].reshape(count, -1).argmax(1)
        second = after[:count].reshape(count, -1).argmax(1)
        truth = labels[:count]
        return {
            "metric": "top-1 accuracy",
            "output": name,
            "samples": count,
            "before": float((first == truth).mean()),
            "after": float((second == truth).mean()),
            "changed": int((first != second).sum()),
        }
    return None
