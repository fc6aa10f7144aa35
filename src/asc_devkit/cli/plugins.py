"""`--op-plugin-path`: one option for every command that meets operators; it runs the user's plugin files first."""

from __future__ import annotations

import os
from typing import Any

import click

VARIABLE = "ASC_OP_PLUGIN_PATH"


def add_option(command: click.Command) -> click.Command:
    """Give ``command`` (and every command of a group) the option, once."""
    if isinstance(command, click.Group):
        for member in command.commands.values():
            add_option(member)
    elif not any(p.name == "op_plugin_path" for p in command.params):
        command.params.append(
            click.Option(
                ["--op-plugin-path", "--op_plugin_path"],
                multiple=True,
                metavar="FILE|DIR",
                expose_value=False,
                is_eager=True,
                callback=_load,
                help=f"Python file (or folder of *_plugin.py) with custom operators; {VARIABLE} too (docs/plugins.md).",
            )
        )
    return command


def _load(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if context.resilient_parsing or not (value or os.environ.get(VARIABLE)):
        return
    from asc_devkit.ops import plugins

    plugins.load_from_environment()
    plugins.load(value)
