"""A comparison as files: JSON, CSV and xlsx in msprobe's columns, JUnit and SARIF for CI. All written atomically."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from asc_devkit import __version__, files
from asc_devkit.errors import AscError, Problem
from asc_devkit.precision.comparison.pairs import Row
from asc_devkit.precision.comparison.result import Result

MAX_SHEET_ROWS: Final = 1_048_500
COLUMNS: Final = (
    *("NPU Name", "Bench Name", "NPU Dtype", "Bench Dtype", "NPU Tensor Shape", "Bench Tensor Shape"),
    *("Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio", "Five Thousandths Err Ratio"),
    *("NPU max", "NPU min", "NPU mean", "NPU l2norm", "Bench max", "Bench min", "Bench mean", "Bench l2norm"),
    *("Result", "Err_message", "RelativeEuclidean", "RMSE", "MeanAbsErr", "MeanRelativeErr", "KL", "Cause"),
)


def finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become text, everywhere in ``value``."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dict):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    return value


def to_json(result: Result) -> str:
    """The result as a JSON text (schema ``asc-devkit/compare/1``)."""
    return json.dumps(finite(result.as_dict()), indent=1, allow_nan=False, default=str) + "\n"


def cell(value: Any) -> Any:
    """A value for a spreadsheet: text that a spreadsheet would take for a formula gets an apostrophe before it."""
    if isinstance(value, str):
        return f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _row(row: Row) -> list[Any]:
    head = [row.target, row.golden, row.dtype, row.golden_dtype, str(list(row.shape)), str(list(row.shape))]
    message = "; ".join(row.reasons)
    m = row.metrics
    if m is None:
        return [*head, *["N/A"] * 14, row.level, message, *["N/A"] * 5, ""]
    euclid = m.relative_euclidean * m.expected_norm if m.expected_norm else m.actual_norm
    values = [m.cosine, euclid, m.max_abs, m.max_rel, m.below_1e3, m.below_5e3]
    ours = [m.actual_max, m.actual_min, m.actual_mean, m.actual_norm]
    theirs = [m.expected_max, m.expected_min, m.expected_mean, m.expected_norm]
    more = [m.relative_euclidean, m.rmse, m.mean_abs, m.mean_rel, "N/A" if m.kl is None else m.kl]
    return [*head, *values, *ours, *theirs, row.level, message, *more, row.cause.kind if row.cause else ""]


def table(result: Result) -> Iterable[list[Any]]:
    """Rows in msprobe's columns, what found no partner last."""
    for row in result.rows:
        yield [cell(value) for value in _row(row)]
    for name in result.matching.only_target:
        yield [cell(name), "N/A", *["N/A"] * 18, "unmatched", "no tensor on the golden side", *["N/A"] * 5, ""]
    for name in result.matching.only_golden:
        yield ["N/A", cell(name), *["N/A"] * 18, "unmatched", "no tensor on the target side", *["N/A"] * 5, ""]


def to_csv(result: Result) -> str:
    """The table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(table(result))
    return text.getvalue()


def write_xlsx(result: Result, path: Path) -> None:
    """The table as a workbook. Raises ``AscError`` (ASC0002) without the extra ``xlsx``."""
    try:
        from openpyxl import Workbook
    except ImportError as error:
        raise AscError(
            Problem("ASC5113", "Writing .xlsx needs openpyxl.", fix="pip install 'asc-devkit[xlsx]', or use .csv.")
        ) from error
    book = Workbook(write_only=True)
    sheet = book.create_sheet("compare")
    sheet.append(COLUMNS)
    for number, row in enumerate(table(result)):
        if number >= MAX_SHEET_ROWS:
            break
        sheet.append([_printable(value) for value in row])
    buffer = io.BytesIO()
    book.save(buffer)
    files.write_bytes(path, buffer.getvalue())


def _printable(value: Any) -> Any:
    """Control characters cannot stand in a sheet."""
    return "".join(c for c in value if c.isprintable() or c == "\n") if isinstance(value, str) else value


def to_junit(result: Result) -> str:
    """One test case a tensor, for CI systems."""
    counts = result.counts()
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name="accuracy" tests="{len(result.rows)}" failures="{counts["error"]}" '
        f'errors="{counts["unreadable"]}">',
    ]
    for row in result.rows:
        head = f"<testcase classname={_attribute(row.op or 'tensor')} name={_attribute(row.name)}"
        if row.level in ("pass", "warning"):
            lines.append(head + "/>")
            continue
        tag = "failure" if row.level == "error" else "error"
        reason = "; ".join(row.reasons)
        cause = f"{row.cause.kind}: {row.cause.evidence}. {row.cause.advice}" if row.cause else ""
        lines.append(f"{head}><{tag} message={_attribute(reason)}>{_text(cause)}</{tag}></testcase>")
    return "\n".join([*lines, "</testsuite>", ""])


def _clean(text: str) -> str:
    """XML 1.0 has no control characters."""
    return "".join(
        c for c in text if c in "\n\t" or (c >= " " and c not in "\ufffe\uffff" and not "\ud800" <= c <= "\udfff")
    )


def _attribute(text: str) -> str:
    return quoteattr(_clean(text))


def _text(text: str) -> str:
    return escape(_clean(text))


def to_sarif(result: Result) -> str:
    """The failing tensors as SARIF 2.1.0 results; the location is the target's file."""
    from asc_devkit.precision.cause import ADVICE

    results = []
    for row in result.rows:
        if row.level not in ("error", "warning"):
            continue
        kind = row.cause.kind if row.cause else "rounding"
        text = f"{row.name}: " + ("; ".join(row.reasons) or "warning")
        if row.cause:
            text += f" ({row.cause.evidence})"
        ref = result.target.tensors.get(row.target)
        uri = (ref.path if ref is not None else result.target.path).as_posix()
        results.append(
            {
                "ruleId": kind,
                "level": "error" if row.level == "error" else "warning",
                "message": {"text": text},
                "locations": [
                    {
                        "physicalLocation": {"artifactLocation": {"uri": uri}},
                        "logicalLocations": [{"name": row.op or row.name, "kind": "member"}],
                    }
                ],
            }
        )
    rules = [{"id": kind, "shortDescription": {"text": kind}, "help": {"text": text}} for kind, text in ADVICE.items()]
    driver = {"name": "asc-devkit", "version": __version__, "rules": rules}
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(finite(log), indent=1) + "\n"
