"""The Python interface and command of the `ais_bench` inference tool on the virtual NPU (``docs/ais_bench.md``).

``src/ais_bench`` and ``src/aclruntime`` are the import names public programs use; all of it is written here from the
tool's public manual.
"""
