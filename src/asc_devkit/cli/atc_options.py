"""The options of `atc` inside `asc convert` and `asc check`: same names, values and rules, from the same table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from asc_devkit.atc.options import table

#: Options that the commands state themselves, or that would make no conversion of one model.
OWN: Final = frozenset(
    {"help", "mode", "model", "om", "json", "singleop", "output", "op_plugin_path", "data", "metric"}
)
#: Shown in `--help`; the others are understood without filling the screen.
SHOWN: Final = ("host_ops", "dynamic_batch_size", "dynamic_image_size", "dynamic_dims", "dynamic_shape", "strict")
EPILOG: Final = "Every other option of `atc` is understood too: `atc --help`, docs/options.md."
_SWITCH: Final = frozenset({"true", "false"})


class ConversionCommand(click.Command):
    """A command that takes ``atc``'s options with `-` or `_`, and its switches with or without a value.

    Their texts reach the function as the keyword ``atc_flags``: option name -> text, given ones only.
    """

    #: Options that make no sense for this command.
    left_out: frozenset[str] = frozenset()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.context_settings = {**self.context_settings, "token_normalize_func": _normalized}
        self.epilog = EPILOG
        stated = {name for parameter in self.params for name in (parameter.name or "", *map(_plain, parameter.opts))}
        self.passed = [name for name in table() if name not in OWN | self.left_out | stated]
        own_end = next((i for i, p in enumerate(self.params) if p.name == "as_json"), len(self.params))
        self.params[own_end:own_end] = [_option(name) for name in self.passed]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give switches that stand alone their value, so that no positional argument is taken for it."""
        words = []
        for index, word in enumerate(args):
            name = _plain(word)
            following = args[index + 1].lower() if index + 1 < len(args) else ""
            alone = word.startswith("--") and "=" not in word and following not in _SWITCH
            words.append(f"{word}=true" if alone and name in self.passed and is_switch(name) else word)
        return super().parse_args(ctx, words)

    def invoke(self, ctx: click.Context) -> Any:
        """Hand the given options over in one piece."""
        given = {name: ctx.params.pop(name) for name in self.passed}
        ctx.params["atc_flags"] = {name: text for name, text in given.items() if text}
        return super().invoke(ctx)


def merged(own: Mapping[str, str], atc_flags: Mapping[str, str]) -> dict[str, str]:
    """The flags of one conversion: what the command states itself, then ``atc``'s; empty texts count as not given."""
    return {name: text for name, text in {**own, **atc_flags}.items() if text}


def is_switch(name: str) -> bool:
    """Whether the option is true or false."""
    spec = table()[name]
    return spec.kind == "flag" or set(spec.values) == _SWITCH


def _option(name: str) -> click.Option:
    spec = table()[name]
    return click.Option(
        [f"--{_normalized(name)}", name],
        default="",
        show_default=False,
        metavar="TRUE|FALSE" if is_switch(name) else spec.kind.upper(),
        hidden=name not in SHOWN,
        help=spec.sentence,
    )


def _normalized(word: str) -> str:
    return word.replace("_", "-")


def _plain(word: str) -> str:
    """``--dynamic-dims=1`` -> ``dynamic_dims``."""
    return word.lstrip("-").partition("=")[0].replace("-", "_")
