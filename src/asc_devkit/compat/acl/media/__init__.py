"""``acl.media``: the media unit. ``descriptions`` holds what calls describe, ``pictures`` VPC and JPEG, ``video`` VDEC
and VENC."""

from asc_devkit.compat.acl.media.descriptions import *  # noqa: F403
from asc_devkit.compat.acl.media.pictures import *  # noqa: F403
from asc_devkit.compat.acl.media.video import *  # noqa: F403
