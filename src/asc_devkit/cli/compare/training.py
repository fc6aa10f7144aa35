"""Sub-commands of `msprobe` beyond compare: acc_check, overflow_check, config_check, parse."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from asc_devkit.cli.compare.shared import NAMES, PATH, progress


def _write(path: Path, text: str) -> None:
    from asc_devkit import files

    files.write_text(path, text)
    click.echo(f"written: {path}", err=True)


def _csv(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    from asc_devkit.precision.comparison.outputs import cell

    made = io.StringIO()
    writer = csv.writer(made)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([cell(row.get(column)) for column in columns])
    return made.getvalue()


@click.command("acc-check", context_settings=NAMES)
@click.option("-api-info", "--api-info", type=PATH, required=True, help="dump.json, or a folder of steps and ranks.")
@click.option("-o", "--out-path", type=PATH, default=Path(), help="Folder for the results [default: here].")
@click.option(
    "--standard", default="standard", show_default=True, help="Acceptance standard (`asc compare --standards`)."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of drawn inputs.")
@click.option("--virtual-npu", default="", help="Chip: run each call on the virtual NPU too (slow).")
@click.option("--only", multiple=True, help="Only calls with this in their name.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def acc_check(
    api_info: Path, out_path: Path, standard: str, seed: int, virtual_npu: str, only: tuple[str, ...], as_json: bool
) -> int:
    """Operator pre-check: execute each dumped call again on the CPU in float64 and in its own type. Needs no device."""
    _needs_torch()
    from asc_devkit.training.precheck import Options, check

    with progress() as tell:
        rows = check(api_info, Options(standard, seed, virtual_npu, only), tell)
    facts = [row.as_dict() for row in rows]
    counts = {status: sum(row.status == status for row in rows) for status in ("pass", "warning", "error", "skip")}
    stamp = time.strftime("%Y%m%d%H%M%S")
    _write(out_path / f"accuracy_checking_details_{stamp}.csv", _csv(facts, list(facts[0]) if facts else []))
    if as_json:
        click.echo(
            json.dumps({"schema": "asc-devkit/acc_check/1", "summary": counts, "checks": _finite(facts)}, indent=1)
        )
    else:
        for row in rows:
            if row.status in ("error", "warning"):
                click.echo(
                    f"  {row.status.upper():8} {row.call} {row.place}: {row.message}{f' [{row.cause}]' if row.cause else ''}"
                )
        skipped = sorted({f"{row.call} ({row.message})" for row in rows if row.status == "skip"})
        if skipped:
            click.echo(f"not checked: {', '.join(skipped[:5])}{' ...' if len(skipped) > 5 else ''}")
        click.echo(", ".join(f"{count} {status}" for status, count in counts.items()))
    return 1 if counts["error"] else 0 if rows else 2


@click.command("overflow-check", context_settings=NAMES)
@click.option("-i", "--input-path", type=PATH, required=True, help="Folder of a step, of steps, or a dump.json.")
@click.option("-o", "--output-path", type=PATH, default=Path(), help="Folder for the result [default: here].")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def overflow_check(input_path: Path, output_path: Path, as_json: bool) -> int:
    """Find the calls that make NaN or infinities from finite inputs, over all ranks."""
    from asc_devkit.training.overflow import origins

    found = origins(input_path)
    text = json.dumps([origin.as_dict() for origin in found], indent=1)
    _write(output_path / f"anomaly_analyze_{time.strftime('%Y%m%d%H%M%S')}.json", text)
    if as_json:
        click.echo(text)
    for o in found if not as_json else ():
        spread = f"{o.spread} calls got them as input"
        click.echo(f"{o.step} {o.rank}: {o.call} makes values that are not finite; {spread}")
    if not found and not as_json:
        click.echo("No call makes NaN or infinities from finite inputs.")
    return 1 if found else 0


@click.command("config-check", context_settings=NAMES)
@click.argument("scripts", nargs=-1, type=PATH)
@click.option("-d", "--dump", is_flag=True, help="Write a snapshot; SCRIPTS: files that settings are read from.")
@click.option("-c", "--compare", "pair", nargs=2, type=PATH, help="Compare two snapshots (.zip) or two checkpoints.")
@click.option("-o", "--output", type=PATH, help="Snapshot to write, or folder for the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def config_check(
    scripts: tuple[Path, ...], dump: bool, pair: tuple[Path, Path] | None, output: Path | None, as_json: bool
) -> int:
    """What a training starts from: write it down, and compare two runs (or two checkpoints)."""
    from asc_devkit.training import snapshot

    if pair is None:
        if not dump:
            raise click.UsageError("Give --dump (write a snapshot) or --compare A B.")
        click.echo(f"written: {snapshot.snapshot(output or Path('config_check.zip'), scripts=scripts)}")
        return 0
    if not all(path.suffix == ".zip" for path in pair):
        return _checkpoints(pair, output or Path(), as_json)
    found = snapshot.difference(*pair)
    facts = [d.as_dict() for d in found]
    if output is not None:
        _write(output / "config_check.csv", _csv(facts, ["section", "name", "first", "second", "level"]))
    if as_json:
        click.echo(json.dumps({"schema": "asc-devkit/config_check/1", "differences": facts}, indent=1))
        return 1 if any(d.level == "error" for d in found) else 0
    for section in snapshot.SECTIONS:
        rows = [d for d in found if d.section == section]
        level = "error" if any(d.level == "error" for d in rows) else "warning" if rows else "pass"
        click.echo(f"{section:16} {level}")
        for row in rows[:20]:
            click.echo(f"    {row.name}: {row.first} | {row.second}")
    return 1 if any(d.level == "error" for d in found) else 0


def _checkpoints(pair: tuple[Path, Path], folder: Path, as_json: bool) -> int:
    from asc_devkit.training.checkpoint import compare

    rows = compare(*pair)
    facts = _finite({row.name: row.as_dict() for row in rows})
    _write(folder / "ckpt_similarity.json", json.dumps(facts, indent=1))
    if as_json:
        click.echo(json.dumps(facts, indent=1))
    else:
        for row in sorted(rows, key=lambda r: -(r.relative if r.relative is not None else 1e9))[:20]:
            click.echo(
                f"{row.name}: {row.note or f'l2 {row.l2:.6g} cosine {row.cosine:.9f} relative {row.relative:.3g}'}"
            )
    return 1 if any(row.note or row.l2 for row in rows) else 0


@click.command("parse", context_settings=NAMES)
@click.option("-d", "--dump-path", type=PATH, required=True, help="Dump file of the NPU, or a folder of them.")
@click.option(
    "-t", "--type", "form", type=click.Choice(["npy", "bin"]), default="npy", show_default=True, help="What to write."
)
@click.option("-o", "--output-path", type=PATH, default=Path(), help="Folder [default: here].")
def parse(dump_path: Path, form: str, output_path: Path) -> int:
    """Turn dump files of the NPU into .npy (or .bin with a .bin.json) in their origin layout."""
    import numpy as np

    from asc_devkit import files
    from asc_devkit.precision.sources import scan

    found = scan(dump_path)
    output_path.mkdir(parents=True, exist_ok=True)
    for name, ref in found.tensors.items():
        path = output_path / f"{name.replace('/', '_')}.{form}"
        array = np.ascontiguousarray(ref.array())
        with files.atomic_writer(path) as handle:
            if form == "npy":
                np.lib.format.write_array(
                    handle, array if array.dtype.kind != "V" else array.astype(np.float32), allow_pickle=False
                )
            else:
                handle.write(array.tobytes())
        if form == "bin":
            files.write_text(
                path.with_name(path.name + ".json"), json.dumps({"dtype": array.dtype.name, "shape": list(array.shape)})
            )
        click.echo(f"{path}  {array.dtype.name}{list(array.shape)}")
    for problem in found.problems:
        click.echo(f"{problem.code}: {problem.what}", err=True)
    return 2 if found.problems else 0


def _needs_torch() -> None:
    import importlib.util

    from asc_devkit.errors import AscError, Problem

    if importlib.util.find_spec("torch") is None:
        raise AscError(
            Problem(
                "ASC1301", "acc_check needs PyTorch, which is not installed.", fix="pip install 'asc-devkit[torch]'"
            )
        )


def _finite(value: Any) -> Any:
    from asc_devkit.precision.comparison.outputs import finite

    return finite(value)
