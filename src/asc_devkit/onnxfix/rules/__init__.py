"""What is put in place of operators the real ATC lacks: one function per operator, found by type in ``RULES``.

A rule edits the node in place through ``Edit`` and raises ``Refusal`` when it cannot. Operators without a rule are written
out as ONNX itself defines them, where it does.
"""

from collections.abc import Callable, Mapping
from typing import Final

from asc_devkit.frontends.onnx.upgrade.edit import Edit
from asc_devkit.onnxfix.rules import arithmetic, control, fourier, grids, optional, quantised, recurrent

Rule = Callable[[Edit], None]
RULES: Final[Mapping[str, Rule]] = {
    **arithmetic.RULES,
    **control.RULES,
    **fourier.RULES,
    **grids.RULES,
    **optional.RULES,
    **quantised.RULES,
    **recurrent.RULES,
}
