"""Versions as the vendor and Python write them: ``8.5.0``, ``8.0.RC2``, ``2.7.1.post4``, ``2.12.0+cpu``."""

from __future__ import annotations

import re


def numbers(version: str) -> tuple[int, ...]:
    """The leading dotted numbers: ``2.7.1.post4`` -> (2, 7, 1)."""
    found = re.match(r"\d{1,9}(?:\.\d{1,9}){0,5}", version.strip().lstrip("vV"))
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def base(version: str) -> str:
    """The release a post, candidate or local build belongs to: ``2.7.1.post4`` and ``2.7.1+cpu`` -> ``2.7.1``."""
    return ".".join(map(str, numbers(version)))


def at_least(version: str, least: str) -> bool:
    """Whether ``version`` is not older than ``least``, by their leading numbers."""
    have, want = numbers(version), numbers(least)
    size = max(len(have), len(want))
    return have + (0,) * (size - len(have)) >= want + (0,) * (size - len(want))


def same_release(first: str, second: str) -> bool:
    """Equal CANN versions however they are written (``8.0.RC1``, ``8.0.rc1``)."""
    return first.strip().lower().lstrip("v") == second.strip().lower().lstrip("v")


def same_line(first: str, second: str) -> bool:
    """CANN releases that differ in the patch number only (``8.5.0``, ``8.5.1``); candidates stand alone."""
    if "rc" in first.lower() or "rc" in second.lower():
        return False
    return numbers(first)[:2] == numbers(second)[:2] != ()


def generation(inner: str) -> str:
    """The part of an inner version that compatibility lists name: ``V100R001C19SPC001B124`` -> ``V100R001C19``."""
    found = re.match(r"V\d{3}R\d{3}C\d{2}", inner.strip().strip("[]"))
    return found.group() if found else ""
