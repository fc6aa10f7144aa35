"""Operators that users add in Python files (plugins): declaration (``operator``), loading (``load``), execution.

A plugin is a Python file given with ``--op_plugin_path`` or ``ASC_OP_PLUGIN_PATH``; loading it runs it, so nothing is
ever loaded from another place. Once loaded, its operators stand in the catalogue like the built-in ones.
"""

from asc_devkit.ops.plugins.declare import CustomOperator, TensorType, operator
from asc_devkit.ops.plugins.loading import ENVIRONMENT, fingerprint, load, load_from_environment, loaded, unload_all

__all__ = [
    "ENVIRONMENT",
    "CustomOperator",
    "TensorType",
    "fingerprint",
    "load",
    "load_from_environment",
    "loaded",
    "operator",
    "unload_all",
]
