"""The main job: convert a model, compare it with the original, predict time and memory, say what to do next.

``run`` is the API behind `asc check`; the report it returns is the JSON described in docs/report_schema.md.
"""

from asc_devkit.check.options import CheckOptions
from asc_devkit.check.result import CheckResult
from asc_devkit.check.run import run

__all__ = ["CheckOptions", "CheckResult", "run"]
