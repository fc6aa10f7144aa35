"""Import name of pyACL. The vendor's own module is used where it can be imported; else asc-devkit's virtual device."""

import sys

from asc_devkit.compat.acl.vendor import vendor_module

found = vendor_module(__path__)
if found is None:
    from asc_devkit.compat import acl

    found = acl
sys.modules[__name__] = found
