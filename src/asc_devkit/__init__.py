"""asc-devkit: convert, verify, profile and understand models for Ascend NPUs, with or without one."""

__version__ = "0.1.0"
