"""What a failed conversion leaves behind: the log with its problems, and check_result.json when operators are to blame.

Called by ``atc.pipeline``. No ``.om`` is written or changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from asc_devkit import files
from asc_devkit.atc.errors import described
from asc_devkit.atc.log import ConversionLog
from asc_devkit.atc.options import Options
from asc_devkit.errors import AscError


def record(options: Options, log: ConversionLog, error: AscError) -> None:
    """Write both files; nothing where the output itself is the problem."""
    problems = [described(problem) for problem in error.problems]
    for problem in problems:
        log.add("error", "\n".join(_lines(problem)), quiet=True)  # the command prints problems itself
    if isinstance(error, files.CannotWrite) or any("--output" in problem["nodes"] for problem in problems):
        return
    try:
        files.write_text(log_path(options), log.text())
        if report := pre_check(problems):
            files.write_text(options.check_report, json.dumps(report, indent=4) + "\n")
    except files.CannotWrite as refused:  # the failure itself is what the user must hear of
        log.warning(f"not everything about the failure is kept: {refused}")


def log_path(options: Options) -> Path:
    """Where the log of a conversion goes: beside the ``.om``."""
    return options.output.with_name(f"{options.output.name}_conversion.log")


def pre_check(problems: list[dict[str, Any]]) -> dict[str, Any]:
    """The vendor's pre-check report over problems of operators (seed class EE2xxx): each operator once, with all causes.

    ``solution`` beside the vendor's fields says what to write instead. Empty without such problems.
    """
    rows: dict[str, dict[str, Any]] = {}
    for problem in problems:
        if not problem["seed_class"].startswith("EE2"):
            continue
        for node in problem["nodes"]:
            name, bracket, kind = node.rpartition(" (")
            row = rows.setdefault(
                node,
                {
                    "name": name if bracket else node,
                    "type": kind.rstrip(")") if bracket else "",
                    "result": "failed",
                    "cause": [],
                },
            )
            row["cause"].append({"code": problem["code"], "message": problem["what"], "solution": problem["fix"]})
    return {"op": list(rows.values()), "result": "failed"} if rows else {}


def _lines(problem: dict[str, Any]) -> list[str]:
    nodes = [f"    - {node}" for node in problem["nodes"]]
    return [f"{problem['code']} ({problem['seed_class']}): {problem['what']}", *nodes, f"  Solution: {problem['fix']}"]
