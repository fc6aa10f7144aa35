"""Import name of pyACL. The vendor's own module is used where it can be imported; else asc-devkit's virtual device."""

import sys

from asc_devkit.compat.acl.vendor import vendor_module

module = vendor_module(__path__)
if module is None:
    import asc_devkit.compat.acl as module
sys.modules[__name__] = module
