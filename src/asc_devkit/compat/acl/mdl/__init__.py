"""``acl.mdl``: models, their descriptions, datasets, gears, AIPP, dumps."""

from asc_devkit.compat.acl.mdl.aipp import *  # noqa: F403
from asc_devkit.compat.acl.mdl.datasets import *  # noqa: F403
from asc_devkit.compat.acl.mdl.describe import *  # noqa: F403
from asc_devkit.compat.acl.mdl.dump import *  # noqa: F403
from asc_devkit.compat.acl.mdl.gears import *  # noqa: F403
from asc_devkit.compat.acl.mdl.loading import *  # noqa: F403
