"""Finding CANN's own ``acl``: an extension module of that name elsewhere on ``sys.path`` always wins over the shim."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.machinery import ExtensionFileLoader, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType


def vendor_module(own: Iterable[str]) -> ModuleType | None:
    """CANN's module, loaded; None when there is none. ``own`` is the folder of the shim, which is passed over."""
    here = {Path(folder).resolve().parent for folder in own}
    elsewhere = [entry for entry in sys.path if Path(entry or ".").resolve() not in here]
    spec = PathFinder.find_spec("acl", elsewhere)
    if spec is None or not isinstance(spec.loader, ExtensionFileLoader):
        return None
    module = module_from_spec(spec)
    sys.modules["acl"] = module
    spec.loader.exec_module(module)
    return module
