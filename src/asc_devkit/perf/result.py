"""What ``perf.estimate`` returns: one ``OpTime`` per operator in execution order, the timeline and the totals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from asc_devkit.perf.counters import Counters


@dataclass(frozen=True, slots=True)
class OpTime:
    """Predicted time of one operator (or fused group) in microseconds on the device.

    ``lo80``/``hi80`` hold 80 % of the measured times on comparable rows. ``bound_by`` is ``cube``, ``vector``,
    ``memory`` (HBM or DDR), ``l2``, ``launch``, ``aicpu``, ``host`` or ``none``. ``basis`` says where the number comes
    from. ``cube_us``, ``vector_us`` and ``mte_us`` are busy times of the pipes, which overlap; ``launch_us`` is the
    part of ``us`` that any kernel of this width needs to start. ``bytes_read``/``bytes_written`` are what the kernel
    touches of its operands, wherever they lie; ``flops`` counts a multiply-add as two. ``cost`` is the cost class of
    the catalogue, ``start_us`` the place on the timeline. ``counters`` feeds profiles and stays out of reports.
    """

    name: str
    type: str
    us: float
    lo80: float
    hi80: float
    bound_by: str
    basis: str
    engine: str
    block_dim: int = 0
    cube_us: float = 0.0
    vector_us: float = 0.0
    mte_us: float = 0.0
    launch_us: float = 0.0
    flops: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    start_us: float = 0.0
    cost: str = ""
    note: str = ""
    counters: Counters | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, without the counters."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "counters"}


@dataclass(frozen=True, slots=True)
class Span:
    """One task on the device's time axis, microseconds from the start of the run."""

    name: str
    type: str
    start_us: float
    end_us: float


@dataclass(frozen=True)
class Estimate:
    """Times of all operators of a model on one chip, in execution order.

    ``borrowed`` maps each chip figure that no public source gives to the chip it was taken from; ``gap_us`` is the
    pause between two tasks; ``notes`` tells the user what limits the estimate.
    """

    soc: str
    operators: tuple[OpTime, ...]
    gap_us: float
    borrowed: dict[str, str]
    notes: tuple[str, ...]

    @property
    def timeline(self) -> tuple[Span, ...]:
        """Tasks in order; operators without a task on the device are left out."""
        return tuple(Span(op.name, op.type, op.start_us, op.start_us + op.us) for op in self.operators if op.us > 0)

    @property
    def total_us(self) -> float:
        """Device time of one run: tasks and the gaps between them."""
        return max((op.start_us + op.us for op in self.operators), default=0.0)

    @property
    def lo80(self) -> float:
        """Lower end of the 80 % interval of ``total_us`` (see ``_spread``)."""
        return max(self.total_us - self._spread(lambda op: op.us - op.lo80), 0.0)

    @property
    def hi80(self) -> float:
        """Upper end of the 80 % interval of ``total_us`` (see ``_spread``)."""
        return self.total_us + self._spread(lambda op: op.hi80 - op.us)

    def _spread(self, of: Callable[[OpTime], float]) -> float:
        """Errors within a cost class count as fully correlated (one wrong coefficient moves them all), errors of
        different classes as independent."""
        by_class: dict[str, float] = defaultdict(float)
        for op in self.operators:
            by_class[op.cost] += of(op)
        return float(sum(x * x for x in by_class.values()) ** 0.5)

    @property
    def bound_by(self) -> dict[str, float]:
        """Share of ``total_us`` by what bounds it, largest first; gaps between tasks count as ``launch``."""
        total = self.total_us
        if total <= 0:
            return {}
        shares: dict[str, float] = defaultdict(float)
        for op in self.operators:
            if op.us > 0:
                shares[op.bound_by] += op.us / total
        shares["launch"] += max(1.0 - sum(shares.values()), 0.0)
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON reports, times in microseconds."""
        return {
            "soc": self.soc,
            "basis": "estimated",
            "total_us": self.total_us,
            "lo80": self.lo80,
            "hi80": self.hi80,
            "gap_us": self.gap_us,
            "bound_by": self.bound_by,
            "borrowed": dict(self.borrowed),
            "notes": list(self.notes),
            "operators": [op.as_dict() for op in self.operators],
        }
