"""Import name of the ais_bench interface; the work is done in ``asc_devkit.compat.ais_bench``."""
