"""``python -m ais_bench``."""

from asc_devkit.cli.ais_bench import main

main()
