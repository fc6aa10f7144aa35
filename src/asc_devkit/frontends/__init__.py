"""Model files of other tools brought into the IR, one package per format. Called by ``atc``."""
