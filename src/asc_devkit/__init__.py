"""asc-devkit: convert, verify, profile and understand models for Ascend NPUs, with or without one."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["convert_module"]

if TYPE_CHECKING:
    from asc_devkit.atc.modules import convert_module as convert_module


def __getattr__(name: str) -> Any:
    """The Python API, imported when it is asked for: the package itself must load in no time."""
    if name == "convert_module":
        from asc_devkit.atc.modules import convert_module

        return convert_module
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
