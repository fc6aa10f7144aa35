"""``op_validate.compare(golden, actual, op_name="Conv2d")`` judges an operator; see ``asc_devkit.precision.operator``."""

from asc_devkit.precision.operator import Batch, Report, batch, compare

__all__ = ["Batch", "Report", "batch", "compare"]
