"""Models compiled by the vendor's ATC: what their graphs leave unsaid is worked out from shapes, names and weights.

``adapt`` turns a decoded graph into one the catalogue understands and lists what it had to guess.
"""

from asc_devkit.om.vendor.adapt import adapt
from asc_devkit.om.vendor.guesses import Guess

__all__ = ["Guess", "adapt"]
