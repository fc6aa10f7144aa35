"""``acl.rt``: devices, contexts, memory, streams, events, callbacks."""

from asc_devkit.compat.acl.rt.devices import *  # noqa: F403
from asc_devkit.compat.acl.rt.events import *  # noqa: F403
from asc_devkit.compat.acl.rt.memory import *  # noqa: F403
from asc_devkit.compat.acl.rt.streams import *  # noqa: F403
