"""`msopgen plugin`: a project with a custom operator in Python, in msOpGen's spelling (`-name`, `-output`)."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def msopgen() -> None:
    """Start projects for operators of your own."""


@msopgen.command()
@click.option("-name", "--name", "-op", "--op", required=True, help="Type, or domain::Type.")
@click.option("-output", "--output", "-out", "--out", type=click.Path(path_type=Path), help="Folder of the project.")
@click.option("-domain", "--domain", default="", help="ONNX domain [default: custom].")
@click.option("-inputs", "--inputs", default="x", show_default=True, help='As in "x limit?".')
@click.option("-outputs", "--outputs", default="y", show_default=True, help="Names, separated by spaces.")
@click.option("-attr", "--attr", "attrs", multiple=True, metavar="NAME=DEFAULT|NAME:TYPE", help="Again for more.")
@click.option("-f", "--force", is_flag=True, help="Replace files that exist.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plugin(
    name: str,
    output: Path | None,
    domain: str,
    inputs: str,
    outputs: str,
    attrs: tuple[str, ...],
    force: bool,
    as_json: bool,
) -> None:
    """Write a plugin with a golden, a test model and tests (the same as `asc op new`)."""
    from asc_devkit.cli.op import create_project

    create_project(name, output, inputs, outputs, attrs, force, as_json, domain)


def main() -> None:
    """Console entry point."""
    from asc_devkit.cli.errors import guarded

    sys.exit(guarded(msopgen))


if __name__ == "__main__":
    main()
