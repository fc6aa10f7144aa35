"""`asc onnx fix`: a model rewritten into one the real ATC accepts, with the proof."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from asc_devkit.onnxfix import FixResult

SHOWN = 8  # nodes named per operator; --json has all


@click.group(context_settings={"token_normalize_func": lambda word: word.replace("_", "-")})
def onnx() -> None:
    """Work on ONNX models."""


@onnx.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write [default: MODEL_fixed.onnx].")
@click.option("--input-shape", default="", help='Fixes open axes in the result too: "images:1,3,640,640;mask:1,64".')
@click.option(
    "--runs", type=click.IntRange(1, 1000), default=3, show_default=True, help="Random inputs to compare with."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of random inputs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def fix(model: Path, output: Path | None, input_shape: str, runs: int, seed: int, as_json: bool) -> int:
    """Rewrite MODEL into one that the real ATC has parsers for (opset 18), and prove that it computes the same.

    Exit code 1 when an operator remains that the real ATC refuses, or the results differ.
    """
    from asc_devkit import onnxfix
    from asc_devkit.frontends.shapes import parse_input_shape

    target = output or model.with_name(f"{model.stem}_fixed.onnx")
    shapes = parse_input_shape(input_shape, False) if input_shape else None
    terminal = sys.stderr.isatty()

    def show(stage: str) -> None:
        if terminal:
            click.echo(f"\r\x1b[2K{stage} ...", err=True, nl=False)

    try:
        result = onnxfix.fix(model, target, shapes, runs, seed, on_stage=show)
    finally:
        if terminal:
            click.echo("\r\x1b[2K", err=True, nl=False)
    click.echo(json.dumps(result.as_dict(), indent=2) if as_json else _text(result))
    return 0 if result.accepted else 1


def _text(result: FixResult) -> str:
    refused = sum(len(row.nodes) for row in result.before)
    lines = [
        f"{result.model} (opset {result.opset}, {result.nodes[0]} operators): the real ATC would refuse {refused} nodes",
        f"{result.output} (opset 18, {result.nodes[1]} operators)",
    ]
    if result.replaced:
        lines.append("  replaced: " + ", ".join(f"{kind} x{count}" for kind, count in sorted(result.replaced.items())))
    lines += [f"  note: {note}" for note in result.notes]
    for row in result.remaining:
        names = ", ".join(row.nodes[:SHOWN]) + (
            f", ... {len(row.nodes) - SHOWN} more" if len(row.nodes) > SHOWN else ""
        )
        name = f"{row.domain}::{row.op_type}" if row.domain else row.op_type
        lines.append(_printable(f"  remains: {name} ({names}): {row.reason}. {row.hint}"))
    proof = result.proof
    if proof.error:
        lines.append(_printable(f"  not compared: {proof.error}. Fix open axes with --input-shape."))
    for item in proof.differences:
        verdict = (
            "identical" if item.exact else f"largest difference {item.max_abs:.3g} ({item.relative:.2e} of its range)"
        )
        lines.append(_printable(f"  output {item.output}: {verdict}") + ("" if item.equal else "  DIFFERENT"))
    if proof.differences:
        lines.append(f"  (measured over {proof.runs} random inputs; the original ran in {proof.runtime})")
    return "\n".join(lines)


def _printable(text: str) -> str:
    """``text`` without control characters: names in a file must not steer the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
