"""Comparing collections of tensors: match, measure, judge, find the cause. Used by the comparing commands."""

from asc_devkit.precision.comparison.match import Matching, Pair, match
from asc_devkit.precision.comparison.run import Options, compare_collections, compare_paths

__all__ = ["Matching", "Options", "Pair", "compare_collections", "compare_paths", "match"]
