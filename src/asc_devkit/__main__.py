"""`python -m asc_devkit ...` is `asc ...`: for virtual environments whose scripts are not on the path."""

from asc_devkit.cli.main import main

if __name__ == "__main__":
    main()
