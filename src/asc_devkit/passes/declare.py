"""What a pass declares: its name in the vendor's vocabulary, its switch, what it does to the numbers; and its work."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Final

import onnx_ir as ir

if TYPE_CHECKING:
    from asc_devkit.passes.editor import Editor

GRAPH: Final = "graph"
UB: Final = "ub"


class Outcome(Enum):
    """What came of trying a pass at one node."""

    NONE = 0
    MATCHED = 1  # the pattern is there, but the rewrite would not be exact or not worthwhile
    CHANGED = 2


class Pass:
    """One rewrite. The docstring of a subclass states the pattern and the algebra; ``docs/passes.md`` shows it.

    ``name``: the vendor's name where one exists (``own = False``), else one built the same way.
    ``group``: ``graph`` or ``ub``, the two sections of a fusion switch file and of ``fusion_result.json``.
    ``level``: 1 when it also runs with ``--oo_level=O1``, else 3.
    ``numerics``: what changes in the last bits of the results.
    """

    name: ClassVar[str]
    group: ClassVar[str] = GRAPH
    level: ClassVar[int] = 3
    own: ClassVar[bool] = False
    numerics: ClassVar[str] = "none"


class NodePass(Pass):
    """A rewrite that starts from one node (the last one of its pattern) and is tried until nothing changes.

    ``ops``: operator types of that node; empty for every type.
    """

    ops: ClassVar[tuple[str, ...]] = ()

    def rewrite(self, node: ir.Node, ed: Editor) -> Outcome:
        raise NotImplementedError


class GraphPass(Pass):
    """A rewrite that needs to see a whole graph at once."""

    def run(self, graph: ir.Graph, ed: Editor) -> None:
        raise NotImplementedError
