"""What profile files look like: every column of every text file, metric groups, database tables.

The facts are data (``data/*.json``, each with its source). ``writers`` writes by them; readers check against them.
"""

from asc_devkit.profiling.schema.files import Column, FileSpec, file_spec, files, layout_of
from asc_devkit.profiling.schema.metrics import GROUPS, core_layout, metric_columns
from asc_devkit.profiling.schema.tables import enum_tables, table_columns, tables

__all__ = [
    "GROUPS",
    "Column",
    "FileSpec",
    "core_layout",
    "enum_tables",
    "file_spec",
    "files",
    "layout_of",
    "metric_columns",
    "table_columns",
    "tables",
]
