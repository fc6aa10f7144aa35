"""`asc profile run MODEL.om`: profile a model without writing a program."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import click

SCHEMA: Final = "asc-devkit/profile-run/1"
PATH = click.Path(path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def profile() -> None:
    """Profiles of models on the virtual NPU: device times are simulated, host times measured."""


@profile.command()
@click.argument("model", type=PATH)
@click.option("-o", "--output", type=PATH, default=Path("prof"), show_default=True, help="Folder for the PROF_* tree.")
@click.option("--loop", type=click.IntRange(1, 1_000_000), default=10, show_default=True, help="Executions.")
@click.option("--soc", "chip", help="Chip to simulate [default: the one the model was converted for].")
@click.option("--aic-metrics", default="PipeUtilization", show_default=True, help="Group of counters.")
@click.option("--sample-hz", type=click.IntRange(1, 100), help="Sampling mode at this frequency.")
@click.option("--seed", default=0, show_default=True, help="Of the random inputs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def run(
    model: Path,
    output: Path,
    loop: int,
    chip: str | None,
    aic_metrics: str,
    sample_hz: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Run MODEL (.om) with random inputs and write its profile."""
    from asc_devkit.profiling import model as models

    settings = {"aic-metrics": aic_metrics}
    if sample_hz is not None:
        settings |= {"aic-mode": "sample-based", "aic-freq": str(sample_hz), "sys-hardware-mem": "on", "aicpu": "on"}
    found = models.profile_model(model, output, loop=loop, soc=chip or "", settings=settings, seed=seed)
    if as_json:
        click.echo(json.dumps({"schema": SCHEMA, **found.as_dict()}, indent=2))
        return
    click.echo(found.text())
    click.echo("Device times are simulated, host times measured on this computer.", err=True)
    sys.stdout.flush()
