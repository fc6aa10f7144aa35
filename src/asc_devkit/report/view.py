"""From a report to the data of its page: columns instead of rows, each text stored once, five significant digits.

50,000 operators must fit a page of a few megabytes, which rows of named fields would not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

MAX_ROWS: Final = 100_000  # operators, layers and rewrites shown; the JSON report holds all
MAX_LOG: Final = 400_000  # characters
Row = Mapping[str, Any]


class _Texts:
    """Every distinct text once; columns hold positions in the list."""

    def __init__(self) -> None:
        self.list: list[str] = [""]
        self._place = {"": 0}

    def __call__(self, text: object) -> int:
        key = "" if text is None else str(text)
        place = self._place.get(key)
        if place is None:
            place = self._place[key] = len(self.list)
            self.list.append(key)
        return place


def number(value: Any) -> Any:
    """``value`` with five significant digits; NaN and infinities as text, what is no number as None."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        return value if value in ("nan", "inf", "-inf") else None
    if isinstance(value, int):
        return value
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def page_data(report: Row) -> dict[str, Any]:
    """What the page's scripts draw: operators, layers, memory, passes, rewrites and the chip's roofs, as columns.

    Absent sections are absent here too. Texts in columns are positions in ``texts``.
    """
    texts = _Texts()
    conversion = report.get("conversion") or {}
    described = conversion.get("operators") or []
    timed = (report.get("performance") or {}).get("operators") or []
    data: dict[str, Any] = {
        "operators": _operators(described, timed, texts),
        "layers": _layers(report.get("accuracy") or {}, texts),
        "passes": [
            [texts(p["name"]), texts(p["group"]), p["matched"], p["applied"]] for p in _list(conversion, "passes")
        ],
        "rewrites": _columns(
            _list(conversion, "rewrites")[:MAX_ROWS],
            {
                "pass": lambda r: texts(r["pass"]),
                "before": lambda r: texts(", ".join(r["before"])),
                "after": lambda r: texts(", ".join(r["after"])),
            },
        ),
        "memory": _memory(report.get("memory"), texts),
        "soc": dict(report.get("soc") or {}),
        "threshold": (report.get("options") or {}).get("threshold"),
        "noise": (report.get("accuracy") or {}).get("noise"),
        "bound_by": {k: number(v) for k, v in ((report.get("performance") or {}).get("bound_by") or {}).items()},
        "total_us": number((report.get("performance") or {}).get("total_us")),
    }
    data["texts"] = texts.list
    return data


def _list(section: Row, key: str) -> list[Any]:
    found = section.get(key)
    return found if isinstance(found, list) else []


def _columns(rows: Iterable[Row], made: Mapping[str, Callable[[Row], Any]]) -> dict[str, list[Any]]:
    listed = list(rows)
    return {name: [make(row) for row in listed] for name, make in made.items()}


_TIMES: Final = (
    "us", "lo80", "hi80", "start_us", "block_dim", "cube_us", "vector_us", "mte_us", "launch_us", "flops",
    "bytes_read", "bytes_written",
)  # fmt: skip
_ENGINES: Final = {"DNN_VM_AICPU": "AI CPU", "DNN_VM_GE_LOCAL": "no task"}
_WORDS: Final = ("bound_by", "basis", "cost", "note")


def _operators(described: Sequence[Row], timed: Sequence[Row], texts: _Texts) -> dict[str, list[Any]]:
    """One row per compiled operator: what it is from the conversion, how long it takes from the estimate."""
    rows = (timed or described)[:MAX_ROWS]
    facts = {str(d.get("name")): d for d in described}
    paired = [{**facts.get(str(row.get("name")), {}), **row} for row in rows]
    columns = _columns(
        paired,
        {
            "name": lambda r: texts(r.get("name")),
            "type": lambda r: texts(r.get("type")),
            "engine": lambda r: texts(_engine(r)),
            "dtype": lambda r: texts(_first(r, "outputs", "dtype")),
            "format": lambda r: texts(_first(r, "outputs", "format")),
            "inputs": lambda r: texts(_tensors(r.get("inputs"))),
            "outputs": lambda r: texts(_tensors(r.get("outputs"))),
            "origin": lambda r: texts(", ".join(f"{o['name']} ({o['type']})" for o in _list(r, "origin_ops"))),
            "members": lambda r: texts(" + ".join(str(m.get("type")) for m in _list(r, "members"))),
            "passes": lambda r: texts(", ".join(map(str, _list(r, "passes")))),
        },
    )
    if timed:
        columns |= {name: [number(r.get(name)) for r in paired] for name in _TIMES}
        columns |= {name: [texts(r.get(name)) for r in paired] for name in _WORDS}
    return columns


def _engine(row: Row) -> str:
    name = str(row.get("engine") or "")
    return _ENGINES.get(name, name.removeprefix("AIcoreEngine/"))


def _first(row: Row, side: str, key: str) -> Any:
    tensors = row.get(side)
    return tensors[0].get(key) if tensors and tensors[0] else None


def _tensors(tensors: Any) -> str:
    return "; ".join(
        f"{'x'.join(map(str, t.get('shape') or [])) or 'scalar'} {str(t.get('dtype') or '?').lower()}"
        + (f" {t['format']}" if t.get("format") else "")
        + (" const" if t.get("constant") else "")
        for t in tensors or []
        if t
    )


_LAYER_NUMBERS: Final = (
    "index", "cosine", "relative_euclidean", "max_abs", "mean_abs", "max_rel", "mean_rel", "rmse", "close_share",
    "inherited_error", "own_error", "saturated", "count", "nan_actual", "inf_actual", "kind_mismatches",
)  # fmt: skip


def _layers(accuracy: Row, texts: _Texts) -> dict[str, list[Any]]:
    rows = _list(accuracy, "layers")[:MAX_ROWS]
    columns = {name: [number(r.get(name)) for r in rows] for name in _LAYER_NUMBERS}
    columns["cosine"] = [_cosine(r.get("cosine")) for r in rows]
    words = ("name", "type", "tensor", "dtype", "kind")
    columns |= {name: [texts(r.get(name)) for r in rows] for name in words}
    columns["origin"] = [texts(", ".join(map(str, _list(r, "origin")))) for r in rows]
    return columns


def _cosine(value: Any) -> Any:
    """More digits than other numbers: cosines of interest differ in the seventh."""
    return round(value, 9) if isinstance(value, float) and value == value else number(value)


def _memory(memory: Any, texts: _Texts) -> dict[str, Any] | None:
    if not memory:
        return None
    keys = ("weight_bytes", "feature_bytes", "workspace_bytes", "total_bytes", "capacity_bytes", "peak_step")
    return {
        **{key: memory.get(key) for key in keys},
        "live": list(memory.get("live_bytes") or []),
        "steps": [texts(name) for name in memory.get("steps") or []],
        "peak": [
            [texts(b["name"]), b["offset"], b["size"], b["first"], b["last"], texts(b.get("kind"))]
            for b in memory.get("at_peak") or []
        ],
    }
