"""Compiles src/asc_devkit/ge/proto/*.proto in a throw-away environment (pip package grpcio-tools).

The generator is held at a release whose output runs with every protobuf runtime from 4.25 on.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

GENERATOR = "grpcio-tools==1.62.3"
PROTO = Path(__file__).resolve().parent.parent / "src" / "asc_devkit" / "ge" / "proto"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "-q", GENERATOR, "setuptools<80"], check=True)
        names = sorted(p.name for p in PROTO.glob("*.proto"))
        command = [python, "-m", "grpc_tools.protoc", f"-I{PROTO}", f"--python_out={PROTO}", f"--pyi_out={PROTO}"]
        subprocess.run([*command, *names], check=True)
    print("compiled: " + ", ".join(names), file=sys.stderr)


if __name__ == "__main__":
    main()
