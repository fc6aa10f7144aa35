"""Which calls of torch are collected, and how they are intercepted: by wrappers in their places while a collection is on.

Only the outermost call counts; what an API calls inside is its own affair. Names are those of the vendor's dumps:
``Functional.linear``, ``Torch.matmul``, ``Tensor.__add__``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any, Final

import torch
import torch.nn.functional

KINDS: Final = (("Functional", torch.nn.functional), ("Torch", torch), ("Tensor", torch.Tensor))


@functools.lru_cache(maxsize=1)
def names() -> dict[str, frozenset[str]]:
    """Lists of ``data/apis.json``: ``operators``, and what is left out: ```questions`` and ``views``"""
    text = resources.files("asc_devkit.training.debugger").joinpath("data/apis.json").read_text(encoding="utf-8")
    return {key: frozenset(value.split()) for key, value in json.loads(text).items()}


@functools.lru_cache(maxsize=1)
def collected() -> tuple[tuple[str, Any, str], ...]:
    """(kind, where the function lives, name) of every API."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = torch.overrides.get_overridable_functions()
    found = []
    for kind, place in KINDS:
        listed = {getattr(function, "__name__", "") for function in known.get(place, ())}
        if kind == "Functional":
            listed |= names()["functional"]
        for name in sorted(listed):
            if _computes(name) and callable(getattr(place, name, None)):
                found.append((kind, place, name))
    return tuple(found)


def _computes(name: str) -> bool:
    lists = names()
    if not name or name in lists["questions"] or name in lists["views"]:
        return False
    if name.startswith(("is_", "_has_", "_is_", "sym_", "sparse_")):
        return False
    if name.startswith("__"):
        return name.strip("_") in lists["operators"]
    return not name.startswith("_") or name in ("_softmax", "_log_softmax")


Handler = Callable[[str, str, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


class Patches:
    """Wrappers in the places of all collected APIs, from ``put`` until ``take_away``."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.saved: list[tuple[Any, str, bool, Any]] = []

    def put(self) -> None:
        """Install the wrappers; nothing is done when they are installed."""
        if self.saved:
            return
        for kind, place, name in collected():
            own = name in vars(place)
            function = getattr(place, name)
            self.saved.append((place, name, own, vars(place).get(name)))
            setattr(place, name, _wrapper(self.handler, kind, name, function))

    def take_away(self) -> None:
        """Put everything back as it was."""
        for place, name, own, function in reversed(self.saved):
            if own:
                setattr(place, name, function)
            else:
                delattr(place, name)
        self.saved = []


def _wrapper(handler: Handler, kind: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        return handler(kind, name, function, args, kwargs)

    return call


def tensors(value: Any, depth: int = 0) -> Iterator[Any]:
    """All tensors in nested lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth < 4 and isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item, depth + 1)
    elif depth < 4 and isinstance(value, dict):
        for item in value.values():
            yield from tensors(item, depth + 1)
