"""A project with a custom operator: plugin file, golden, test model, tests. ``create`` writes it."""

from asc_devkit.opdev.plugin.project import Project, create
from asc_devkit.opdev.plugin.signature import Signature, signature

__all__ = ["Project", "Signature", "create", "signature"]
