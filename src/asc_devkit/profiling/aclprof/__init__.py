"""Profiling from inside a program, as the ``acl.prof`` functions do it; ``compat/acl/prof.py`` gives them pyACL's form.

``control`` starts and stops collections, ``stamps`` sets markers and ranges, ``subscription`` streams operator times.
Everything that is wrong raises ``DeviceFault`` with the code that the C interface returns.
"""
