"""`--strict`: what the vendor's ATC refuses of a model although asc-devkit converts it. Called by the parse stage.

Options have their own rules (data/option_rules.json); here are the model's operators, judged by the table of the vendor's
parsers at the opset the file states, before anything is rewritten.
"""

from __future__ import annotations

from asc_devkit.errors import AscError, Problem
from asc_devkit.frontends.onnx import original_nodes
from asc_devkit.frontends.source import Source
from asc_devkit.ops.acceptance import Refused, refused


def check(source: Source) -> None:
    """Raises ``AscError`` with one problem per operator and opset (E16002), each naming all its nodes."""
    if source.framework != "5":
        return
    if not source.is_onnx:
        raise AscError(
            Problem(
                "E10055",
                "--strict: the vendor's ATC reads no PyTorch programs.",
                "asc-devkit exports them to ONNX itself.",
                "Export the model with torch.onnx.export(..., opset_version=18), or leave --strict out.",
                ("--model",),
                "EE1055",
            )
        )
    if problems := [_problem(row) for row in refused(original_nodes(source.path))]:
        raise AscError(problems)


def _problem(row: Refused) -> Problem:
    full = f"{row.domain or 'ai.onnx'}::{row.opset}::{row.op_type}"
    more = f" and {len(row.nodes) - 1} more of its kind" if len(row.nodes) > 1 else ""
    return Problem(
        "E16002",
        f"ATC unsupported op type: {row.op_type}. No parser is registered for Op [{row.nodes[0]}, optype [{full}]]{more}.",
        cause=f"--strict judges as the vendor's ATC: {row.reason}.",
        fix=f"For the vendor's ATC: {row.hint.rstrip('.')}. Without --strict asc-devkit converts what it can itself.",
        nodes=tuple(f"{name} ({full})" for name in row.nodes),
        seed_class="EE2002",
    )
