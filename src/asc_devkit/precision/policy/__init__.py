"""Acceptance rules for a compared tensor: presets as data (``data/presets.json``), each turned into a criterion.

``criterion(preset, dtype, op_type)`` gives the object to hand to ``Accumulator(criteria=...)``; after the pass its
``verdict(metrics)`` says passed or not, and why.
"""

from asc_devkit.precision.policy.criteria import Criterion, Verdict
from asc_devkit.precision.policy.presets import Policy, Preset, criterion, preset, presets

__all__ = ["Criterion", "Policy", "Preset", "Verdict", "criterion", "preset", "presets"]
