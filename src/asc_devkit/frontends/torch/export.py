"""From PyTorch to ONNX: exported programs from files, modules and TorchScript from Python."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from asc_devkit.errors import AscError, Problem
from asc_devkit.frontends.torch.archive import safe_copy

EXTRA = "pip install 'asc-devkit[torch]'"


def to_onnx(path: Path) -> onnx.ModelProto:
    """The ONNX model of a ``.pt2`` file (``torch.export.save``). Raises ``AscError`` (E10041, ASC1301 without PyTorch)."""
    _needs_torch(str(path))
    import torch

    archive = safe_copy(path)
    with _quiet():
        try:
            program = torch.export.load(archive)
            return _message(torch.onnx.export(program, dynamo=True, verbose=False))
        except Exception as error:  # PyTorch's refusals have no common type
            raise AscError(_failed(str(path), error)) from error


def module_to_onnx(
    module: Any,
    example_inputs: Sequence[Any] | Mapping[str, Any],
    target: Path,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_shapes: Any = None,
    opset_version: int | None = None,
) -> Path:
    """Export an ``nn.Module``, exported program or TorchScript module to the ONNX file ``target``; returns it.

    ``example_inputs``: positional tensors, or tensors by argument name. ``dynamic_shapes``: as for ``torch.export``.
    The module is put in evaluation mode while it is exported. Raises ``AscError`` (E10041, ASC1301).
    """
    _needs_torch(type(module).__name__)
    import torch

    options: dict[str, Any] = {"verbose": False, "input_names": input_names, "output_names": output_names}
    if opset_version is not None:
        options["opset_version"] = opset_version
    arguments: dict[str, Any] = {"args": ()}
    if isinstance(example_inputs, Mapping):
        arguments["kwargs"] = dict(example_inputs)
    else:
        arguments["args"] = tuple(example_inputs)
    scripted = isinstance(module, (torch.jit.ScriptModule, torch.jit.ScriptFunction))
    if scripted:
        options["dynamo"] = False
    else:
        options |= {"dynamo": True, "dynamic_shapes": dynamic_shapes, "external_data": True}
    training = bool(getattr(module, "training", False)) and hasattr(module, "eval")
    with _quiet():
        try:
            if training:
                module.eval()
            torch.onnx.export(module, f=str(target), **arguments, **options)
        except Exception as error:  # PyTorch's refusals have no common type
            raise AscError(_failed(type(module).__name__, error)) from error
        finally:
            if training:
                module.train()
    return target


def _message(program: Any) -> onnx.ModelProto:
    message: onnx.ModelProto = program.model_proto
    return message


def _needs_torch(name: str) -> None:
    missing = [package for package in ("torch", "onnxscript") if importlib.util.find_spec(package) is None]
    if missing:
        raise AscError(
            Problem(
                "ASC1301",
                f"{name!r} needs PyTorch to be converted: {' and '.join(missing)} is not installed.",
                "PyTorch is an extra, so that the base installation stays small.",
                f"Install it: {EXTRA} (or export to ONNX where PyTorch is installed).",
                (name[:300],),
                "EE1301",
            )
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep PyTorch's own progress and remarks off the streams; what matters comes back as an error."""
    previous = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(previous)


def _failed(name: str, error: Exception) -> Problem:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = next((line for line in lines if not line.startswith(("Failed to", "This is step", "-", "##", "<class"))), "")
    return Problem(
        "E10041",
        f"PyTorch cannot export {name!r} to ONNX: {(said or type(error).__name__)[:400]}",
        "The program holds something that ONNX lacks, or the file is damaged.",
        "Try torch.onnx.export in Python, whose report names the operator, then convert the .onnx file.",
        (name[:300],),
        "EE1001",
    )
