"""The front door: `asc COMMAND ...`. Commands are imported only when they run, so `asc --help` stays fast."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

import click

from asc_devkit import __version__

# name -> (module, attribute, one-line help)
COMMANDS: Final[dict[str, tuple[str, str, str]]] = {
    "check": ("asc_devkit.cli.check", "check", "Convert a model, compare with the original, predict time and memory."),
    "compare": ("asc_devkit.cli.compare.asc", "compare", "Compare tensors of any origin: metrics, verdict, cause."),
    "convert": ("asc_devkit.cli.convert", "convert", "Convert a model to an .om file."),
    "doctor": ("asc_devkit.cli.doctor", "doctor", "Show what is installed and what each missing part would enable."),
    "explain": ("asc_devkit.cli.explain", "explain", "Explain an error code, or search the codes by words."),
    "msprof": ("asc_devkit.cli.msprof", "msprof", "Run a program with collection on; export what was collected."),
    "om": ("asc_devkit.cli.om", "om", "Look into .om files: show, json, decompress, extract-weights, diff."),
    "onnx": ("asc_devkit.cli.onnx", "onnx", "Rewrite ONNX models into what the real ATC accepts, proved equal."),
    "op": ("asc_devkit.cli.op", "op", "List operators and what the real ATC refuses; start your own."),
    "profile": ("asc_devkit.cli.profile", "profile", "Profile a model: run it and write what msprof writes."),
    "run": ("asc_devkit.cli.run", "run", "Run an .om on the virtual NPU."),
    "serve": ("asc_devkit.cli.serve", "serve", "Serve converted models over HTTP (KServe v2) on the virtual NPU."),
    "soc": ("asc_devkit.cli.soc", "soc", "List chips and show their figures with sources."),
    "tune-precision": ("asc_devkit.cli.tune", "tune_precision", "Find the operators that must keep float32."),
}

#: Commands that never meet an operator of a model.
WITHOUT_PLUGINS: Final = frozenset({"doctor", "explain", "soc"})


class LazyGroup(click.Group):
    """Group that knows its commands by name and imports one only when it is invoked."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(importlib.import_module(entry[0]), entry[1])
        if cmd_name not in WITHOUT_PLUGINS:
            from asc_devkit.cli.plugins import add_option

            add_option(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take ATC's spelling of a switch too (``--host_ops=true``), since its messages recommend it."""
        spelled = [word.replace("_", "-") if word.startswith("--host") else word for word in args]
        words = ["--host-ops" if word == "--host-ops=true" else word for word in spelled if word != "--host-ops=false"]
        return super().parse_args(ctx, words)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"No such command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="asc-devkit")
def cli() -> None:
    """Work for Ascend NPUs without owning one (independent of Huawei; results say whether they were measured,
    simulated or estimated)."""


def main() -> None:
    """Console entry point; maps errors to exit codes 1 (check failed), 2 (bad input), 3 (internal error)."""
    from asc_devkit.cli.errors import guarded, print_json, print_problems

    sys.exit(guarded(cli, on_error=print_json if "--json" in sys.argv[1:] else print_problems))
