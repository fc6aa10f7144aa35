"""``python -m ais_bench.infer``."""

from asc_devkit.cli.ais_bench import main

main()
