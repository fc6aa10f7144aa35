"""The chips: names, figures with their sources, and what follows from the family (overflow mode, formats, cube types).

Light on purpose (no IR imports): the `asc soc` command and every stage of a conversion use it.
"""

from asc_devkit.soc.chip import Soc
from asc_devkit.soc.lookup import Board, Resolution, boards, conflicts, get, names, resolve

__all__ = ["Board", "Resolution", "Soc", "boards", "conflicts", "get", "names", "resolve"]
