"""Renders docs/chips.md from the data."""

from __future__ import annotations

from asc_devkit.soc.lookup import conflicts, get, names


def _cell(value: float | int | None, scale: float = 1) -> str:
    return "unknown" if value is None else f"{value / scale:g}"


def render() -> str:
    """The page: one row per chip, the disagreements of sources below."""
    lines = [
        "# Chips",
        "",
        "Generated from `src/asc_devkit/soc/data` (`make docs`). Every figure has its source there;",
        "`asc soc show NAME` prints both. Peaks are derived from counts and clocks. *unknown*: no public source was found.",
        "",
        "| soc_version | series | cube cores | vector units | MHz | fp16 TFLOPS | int8 TOPS | L2 MiB | memory GB/s "
        "| memory GiB | overflow |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in names():
        c = get(name)
        lines.append(
            f"| {name} | {c.series} | {_cell(c.cube_core_count)} | {_cell(c.vector_units)} | {_cell(c.cube_freq_mhz)} "
            f"| {_cell(c.fp16_cube_tflops)} | {_cell(c.int8_cube_tops)} | {_cell(c.l2_bytes, 2**20)} "
            f"| {_cell(c.memory_gbps)} | {_cell(c.memory_bytes, 2**30)} | {c.overflow_mode} |"
        )
    lines += ["", "## Where sources disagree", "", *(f"- {text}" for text in conflicts())]
    return "\n".join(lines) + "\n"
