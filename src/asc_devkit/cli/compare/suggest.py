"""`asc compare --suggest-mix`: the smallest list of operators to keep in float32, on the inputs of the compared dump."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from asc_devkit.errors import AscError, Problem

if TYPE_CHECKING:
    from asc_devkit.check.keep import Keep
    from asc_devkit.precision.comparison.result import Result


def suggest(result: Result, model: Path, soc: str, goal: str, path: Path, quiet: bool) -> Keep:
    """Search with conversions and runs on the virtual NPU; writes ``path`` when operators must be kept.

    The dump gives the inputs where it holds all of them, else they are random. Prints what was found unless ``quiet``.
    """
    from asc_devkit.atc.options import from_flags
    from asc_devkit.cli.tune import print_kept, search_and_write

    with tempfile.TemporaryDirectory(prefix="asc-mix-") as folder:
        data = _inputs(result, model, Path(folder))
        flags = {
            "model": str(model),
            "framework": "5",
            "output": str(Path(folder) / "model"),
            "soc_version": soc,
            "precision_mode": "force_fp16",
            "auto_keep_dtype": goal,
            "metric": "cosine",
            "data": str(data or ""),
        }
        found, written = search_and_write(from_flags({k: v for k, v in flags.items() if v}), path)
    if not quiet:
        source = (
            "the golden dump's inputs"
            if data is not None
            else "random inputs: the golden dump holds none of the model's"
        )
        click.echo(f"Operators to keep in float32 on {soc} (simulated on {source}; times estimated):")
        print_kept(found, written)
    return found


def _inputs(result: Result, model: Path, folder: Path) -> Path | None:
    """The golden tensors that are inputs of the model, as files; None when one is missing."""
    import numpy as np

    from asc_devkit.frontends.source import Source, framework_of
    from asc_devkit.precision.sources.names import plain

    refs = {plain(name): ref for name, ref in result.golden.tensors.items()}
    wanted = Source(model, framework_of(model)).declared_inputs()
    if not wanted:
        raise AscError(Problem("ASC5109", f"{model} has no inputs.", fix="Give the model the dumps come from."))
    if not all(plain(name) in refs for name in wanted):
        return None
    with zipfile.ZipFile(folder / "inputs.npz", "w") as archive:
        for name in wanted:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.ascontiguousarray(refs[plain(name)].array()), allow_pickle=False)
    return folder / "inputs.npz"
