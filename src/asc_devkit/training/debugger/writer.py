"""Writes one step's folder: dump.json, stack.json, construct.json and the tensors, as the vendor's tool lays them out.

Rows go to a journal (``dump.journal``, one JSON object a line) whenever some hundred have come together, so a program
that dies loses little; at the end of the step the journal becomes ``dump.json``. Elements are written by a thread of
its own, either one ``.pt`` a tensor or all into ``dump_tensor_data.npz``, whose members are stored, so that they can
be mapped.
"""

from __future__ import annotations

import json
import os
import queue
import threading
import weakref
import zipfile
from pathlib import Path
from typing import Any, Final

import torch

from asc_devkit import files
from asc_devkit.errors import AscError, Problem
from asc_devkit.training.debugger.values import Pending, read

FLUSH: Final = 512  # rows kept back before they go to the journal
WAITING: Final = 64  # tensors waiting for the writing thread
JOURNAL: Final = "dump.journal"
CONTAINER: Final = "dump_tensor_data.npz"
Entry = dict[str, Any]


class StepWriter:
    """``task`` and ``level`` stand in dump.json. ``entry`` takes one call's rows; ``close`` ends the step. ``own.busy``
    marks threads whose calls are the debugger's own."""

    def __init__(self, folder: Path, task: str, level: str, file_format: str, own: threading.local) -> None:
        self.folder, self.task, self.level = folder, task, level
        self.tensors = folder / "dump_tensor_data"
        self.stack: dict[tuple[str, ...], list[str]] = {}
        self.construct: dict[str, str | None] = {}
        self.unfinished: dict[str, Entry] = {}  # entries whose gradients arrive one by one
        self.waiting: list[tuple[str, Entry]] = []
        self.saved: dict[int, tuple[Any, int, str]] = {}
        self.written: dict[str, Entry] = {}
        try:
            (self.tensors if task == "tensor" and file_format == "pt" else folder).mkdir(parents=True, exist_ok=True)
            self.journal = open(folder / JOURNAL, "w", encoding="utf-8")  # noqa: SIM115 - open for the step
        except OSError as error:
            raise AscError(
                Problem(
                    "ASC5203", f"Cannot write the dump to {folder}: {error.strerror}.", fix="Choose another dump_path."
                )
            ) from error
        self.elements = _Elements(folder, file_format, own) if task == "tensor" else None

    def entry(self, name: str, facts: Entry) -> None:
        """Rows of one call: sections (``input_args``, ``output``, ...) with ``Pending`` in the places of tensors."""
        self.waiting.append((name, facts))
        if len(self.waiting) >= FLUSH:
            self.flush()

    def save(self, label: str, tensor: Any) -> str:
        """Queue the elements of a tensor; returns its ``data_name``. What was written already is linked, not written again."""
        assert self.elements is not None
        key = id(tensor)
        known = self.saved.get(key)
        first = known[2] if known is not None and known[0]() is tensor and known[1] == tensor._version else ""
        if not first:
            self.saved[key] = (weakref.ref(tensor), tensor._version, label)
        return self.elements.put(label, tensor, first)

    def flush(self) -> list[tuple[str, Entry]]:
        """Read the numbers of all waiting rows and write these to the journal; returns them."""
        rows, self.waiting = self.waiting, []
        found: list[Pending] = []
        for _, facts in rows:
            _pending(facts, found)
        with_numbers = [row for row in found if row.numbers is not None]
        values = read([row.numbers for row in with_numbers if row.numbers is not None])
        known = {id(row): numbers for row, numbers in zip(with_numbers, values, strict=True)}
        done = [(name, _filled(facts, known)) for name, facts in rows]
        for name, facts in done:
            self.journal.write(json.dumps({name: facts}) + "\n")
            self.written[name] = facts
        self.journal.flush()
        return done

    def close(self, keep: set[str] | None = None) -> None:
        """Write the step's files; ``keep``: only these calls (None: all)."""
        for name, facts in self.unfinished.items():
            self.construct.setdefault(name, None)
            self.entry(name, facts)
        self.unfinished = {}
        self.flush()
        self.journal.close()
        if self.elements is not None:
            self.elements.close()
        data = self.written if keep is None else {k: v for k, v in self.written.items() if k in keep}
        facts = {
            "task": self.task,
            "level": self.level,
            "framework": "pytorch",
            "dump_data_dir": str(self.tensors),
            "data": data,
        }
        stacks = {str(i): [names, list(frames)] for i, (frames, names) in enumerate(self.stack.items())}
        for name, content in (("dump.json", facts), ("stack.json", stacks), ("construct.json", self.construct)):
            files.write_text(self.folder / name, json.dumps(content))
        (self.folder / JOURNAL).unlink(missing_ok=True)
        self.written = {}


def _pending(value: Any, found: list[Pending]) -> None:
    if isinstance(value, Pending):
        found.append(value)
    elif isinstance(value, dict):
        for item in value.values():
            _pending(item, found)
    elif isinstance(value, list):
        for item in value:
            _pending(item, found)


def _filled(value: Any, known: dict[int, tuple[float, ...]]) -> Any:
    if isinstance(value, Pending):
        return value.row(known.get(id(value)))
    if isinstance(value, dict):
        return {key: _filled(item, known) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, known) for item in value]
    return value


def _copy(tensor: Any) -> Any:
    return tensor.detach().to("cpu", copy=True).contiguous()


class _Elements:
    """The writing thread. Tensors are copied when they are handed over, since the program may change them at once."""

    def __init__(self, folder: Path, file_format: str, own: threading.local) -> None:
        self.folder, self.container = folder, file_format == "container"
        self.queue: queue.Queue[tuple[str, Any] | None] = queue.Queue(WAITING)
        self.own = own
        self.error: OSError | RuntimeError | None = None
        self.thread = threading.Thread(target=self._work, name="asc-dump", daemon=True)
        self.thread.start()

    def put(self, label: str, tensor: Any, first: str) -> str:
        """Take a tensor; ``first`` is the label it was written under before, if it was."""
        if self.container:
            if not first:
                self.queue.put((label, _copy(tensor)))
            return f"{CONTAINER}/{first or label}.npy"
        self.queue.put((label, first or _copy(tensor)))
        return f"{label}.pt"

    def close(self) -> None:
        self.queue.put(None)
        self.thread.join()
        if self.error is not None:
            raise AscError(
                Problem("ASC5203", f"Cannot write the dump to {self.folder}: {self.error}.", fix="Is the disk full?")
            )

    def _work(self) -> None:
        self.own.busy = True  # what this thread calls is not the program's
        archive = zipfile.ZipFile(self.folder / CONTAINER, "w", zipfile.ZIP_STORED) if self.container else None
        try:
            while (item := self.queue.get()) is not None:
                if self.error is None:
                    try:
                        self._write(archive, *item)
                    except (OSError, RuntimeError) as error:
                        self.error = error
        finally:
            if archive is not None:
                archive.close()

    def _write(self, archive: zipfile.ZipFile | None, label: str, tensor: Any) -> None:
        if archive is None:
            path = self.folder / "dump_tensor_data" / f"{label}.pt"
            if isinstance(tensor, str):
                path.unlink(missing_ok=True)
                os.link(path.with_name(f"{tensor}.pt"), path)
            else:
                torch.save(tensor, path)
            return
        import numpy as np

        array = tensor.view(torch.int16).numpy() if tensor.dtype is torch.bfloat16 else tensor.numpy()
        with archive.open(f"{label}.npy", "w", force_zip64=True) as entry:
            np.lib.format.write_array(entry, array, allow_pickle=False)
