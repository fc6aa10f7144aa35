"""Starting the user's program with collection on, watching it on the host, and exporting what it left."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from asc_devkit import soc
from asc_devkit.errors import AscError, Problem
from asc_devkit.profiling.collect import hook, raw
from asc_devkit.profiling.collect.collector import Plan
from asc_devkit.profiling.collect.options import Command

_ASC: Final = "from asc_devkit.cli.main import main; main()"
OM_LOOPS: Final = 10  # executions of an .om that is profiled without a program


@dataclass(frozen=True)
class Launched:
    """What became of a program: its exit code (negative: the signal that ended it) and the trees it left."""

    returncode: int
    trees: tuple[Path, ...]


def program_of(command: Command) -> list[str]:
    """The words to start. Raises ``AscError`` when there is no program or it cannot be found."""
    words = list(command.program)
    if not words:
        try:
            words = shlex.split(command.get("application"))
        except ValueError as error:
            raise _no_program(f"--application cannot be read: {error}", command.get("application")) from error
    if not words:
        raise _no_program("No program was given", "")
    first = words[0]
    python = command.get("python-path") or sys.executable
    if first.endswith((".py", ".om")):
        if not Path(first).is_file():
            raise _no_program(f"The file {first} does not exist", first)
        if first.endswith(".py"):
            return [python, *words]
        loops = [] if any(w.startswith("--loop") for w in words) else ["--loop", str(OM_LOOPS)]
        return [sys.executable, "-c", _ASC, "run", *words, *loops]
    if shutil.which(first) is None:
        raise _no_program(f"The program {first} cannot be found or started", first)
    return words


def _no_program(what: str, word: str) -> AscError:
    fix = 'Write msprof --output=prof python app.py, or --application="python app.py".'
    return AscError(Problem("ASC6012", f"{what}.", fix=fix, nodes=(word,) if word else ()))


def environment(command: Command, plan: Plan) -> dict[str, str]:
    """The program's environment: ours, ``--environment``, and what switches collection on."""
    found = dict(os.environ)
    for part in filter(None, command.get("environment").split(";")):
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise AscError(Problem("ASC6011", f"--environment has {part!r}.", fix="Write K=V;K2=V2.", nodes=(part,)))
        found[name] = value
    chip = command.get("soc-version")
    if chip:
        found[hook.SOC] = soc.resolve(chip).soc.name
    found[hook.VARIABLE] = hook.variable(plan)
    return found


def launch(command: Command) -> Launched:
    """Run the program to its end with collection on. Its output passes through.

    Raises ``AscError`` when it cannot be started or ``--output`` cannot be written.
    """
    words = program_of(command)
    output = Path(command.get("output") or ".").resolve()
    plan = Plan(output, command.settings, uuid.uuid4().hex)
    env = environment(command, plan)
    try:
        output.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(words, env=env)
    except OSError as error:
        raise AscError(
            Problem("ASC6013", f"{words[0]} cannot be started: {error.strerror or error}.", nodes=(words[0],))
        ) from error
    watcher = _HostWatch(process.pid, command)
    watcher.start()
    try:
        code = process.wait()
    except KeyboardInterrupt:
        code = process.wait()  # the terminal told the program too
    samples = watcher.stop()
    trees = tuple(_mine(output, plan.launch))
    for tree in trees:
        if raw.facts(tree).get("process") == process.pid and samples:
            text = "".join(json.dumps(row) + "\n" for row in samples)
            (tree / "host" / "data" / "asc_host.slice_0").write_text(text, encoding="ascii")
    return Launched(code, trees)


def _mine(output: Path, mark: str) -> Sequence[Path]:
    """Trees of this launch, by name."""
    found = []
    for tree in sorted(output.glob("PROF_*")):
        try:
            if raw.facts(tree).get("launch") == mark:
                found.append(tree)
        except AscError:
            continue  # someone else's
    return found


class _HostWatch(threading.Thread):
    """Looks at the program's process at a fixed frequency (``--host-sys=cpu,mem``)."""

    def __init__(self, process: int, command: Command) -> None:
        super().__init__(daemon=True, name="asc-host-watch")
        wanted = f"{command.get('host-sys')},{command.get('host-sys-usage')}".split(",")
        self._wanted = "cpu" in wanted or "mem" in wanted
        self._period = 1.0 / float(command.get("host-sys-usage-freq"))
        self._stat, self._memory = Path(f"/proc/{process}/stat"), Path(f"/proc/{process}/statm")
        self._done = threading.Event()
        self._rows: list[tuple[int, float, int]] = []

    def start(self) -> None:
        if self._wanted:
            super().start()

    def stop(self) -> list[tuple[int, float, int]]:
        """End; samples as (time since 1970 in ns, per cent of one core, resident bytes)."""
        self._done.set()
        if self._wanted:
            self.join(timeout=5)
        return self._rows

    def run(self) -> None:
        ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        before: tuple[int, float] | None = None
        while not self._done.wait(self._period):
            try:
                fields = self._stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
                spent = (int(fields[11]) + int(fields[12])) / ticks
                resident = int(self._memory.read_text(encoding="ascii").split()[1]) * page
            except (OSError, ValueError, IndexError):
                return  # ended, or a system without /proc
            now = time.time_ns()
            if before is not None:
                seconds = (now - before[0]) / 1e9
                self._rows.append((now, max(spent - before[1], 0.0) / seconds * 100, resident))
            before = (now, spent)
