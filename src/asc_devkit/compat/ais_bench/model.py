"""A model on a device: descriptions, the shape that is set, execution. What the `aclruntime` module offers."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from asc_devkit import npu, om
from asc_devkit.compat.ais_bench.tensors import (
    Elapsed,
    InferError,
    MemorySummary,
    Tensor,
    TensorDesc,
    Times,
    datatype,
    host_array,
)
from asc_devkit.errors import AscError, Problem
from asc_devkit.ge import dtypes
from asc_devkit.npu.geared import GearedSession
from asc_devkit.npu.numerics import Array
from asc_devkit.om import mbatch
from asc_devkit.om.inout import TensorInfo

if TYPE_CHECKING:
    from asc_devkit.profiling.collect.watch import Watched

MAX_CONFIG: Final = 8 << 10
DEVICES: Final = "ASC_DEVICES"
log = logging.getLogger("ais_bench")


@dataclass
class SessionOptions:
    """How a model is run: ``loop`` executions per call, ``acl_json_path`` a configuration with a ``dump`` section."""

    log_level: int = 2
    loop: int = 1
    acl_json_path: str = ""
    aclJsonPath: str = ""  # noqa: N815 (the spelling of the older interface)


@dataclass
class Summary:
    """``exec_time_list``: one entry for each execution, milliseconds on this CPU."""

    exec_time_list: Times = field(default_factory=Times)


class InferenceSession:
    """A loaded ``.om``. Raises ``InferError`` for everything that is wrong with the file or a call."""

    def __init__(self, model_path: str | os.PathLike[str], device_id: int = 0, options: Any = None) -> None:
        self.options = options if isinstance(options, SessionOptions) else SessionOptions()
        self.device_id = _device(device_id)
        self.dump = _dump_folder(self.options.acl_json_path or self.options.aclJsonPath)
        _join_profile()
        started = time.monotonic_ns()
        try:
            file = om.read(model_path)
            self.session: npu.Session = npu.load(file)
        except AscError as error:
            raise InferError(error.problems) from error
        self._watched = _watched(file, model_path, self.device_id, started)
        self._in = _matching([t for t in file.inputs if t.name != mbatch.DATA], self.session.inputs)
        self._out = _matching(file.outputs, self.session.outputs)
        self._gears = self.session.gears if isinstance(self.session, GearedSession) else ()
        self._gear: int | None = None
        self._outsizes: list[int] = []
        self._summary = Summary()
        self._static = tuple((t.name, t.shape, t.dtype) for t in self.session.inputs)
        self._warned = False

    @property
    def dynamic(self) -> bool:
        """Whether the model has gears."""
        return bool(self._gears)

    @property
    def gear(self) -> int | None:
        """The gear that is set."""
        return self._gear

    def current_shape(self) -> tuple[int, ...] | None:
        """The shape of the first input that is set."""
        return self._now()[0] if self._static else None

    def get_inputs(self) -> list[TensorDesc]:
        fixed = self.session.fixed_inputs()
        return [_describe(*row) for row in zip(self._in, fixed, self._now(), strict=True)]

    def get_outputs(self) -> list[TensorDesc]:
        """Named as in the file (``operator:index:name``); ``run`` knows these names and the model's own."""
        current = self._current()
        session = self.session
        largest = session.session(session.largest) if isinstance(session, GearedSession) else session
        shapes = [t.shape for t in current.outputs] if current is not None else [None] * len(self._out)
        return [_describe(*row) for row in zip(self._out, largest.outputs, shapes, strict=True)]

    def set_staticbatch(self) -> None:
        """Use the shape the model was converted for (of a model with gears: the largest)."""
        if isinstance(self.session, GearedSession):
            self._gear = self.session.largest

    def set_dynamic_batchsize(self, batch: int) -> None:
        """The gear whose open first axes are ``batch``."""
        wanted = {
            t.name: (batch, *t.shape[1:])
            for t in self.session.inputs
            if t.shape and (t.shape[0] is None or not self._gears)
        }  # other open axes stay open
        self._set("batch size", str(batch), wanted)

    def set_dynamic_hw(self, height: int, width: int) -> None:
        """The gear whose open height and width are these."""
        wanted: dict[str, tuple[int | None, ...]] = {}
        for tensor in self.session.inputs:
            if not self._gears and len(tensor.shape) == 4:
                wanted[tensor.name] = (*tensor.shape[:2], height, width)
            elif sum(d is None for d in tensor.shape) == 2:
                values = iter((height, width))
                wanted[tensor.name] = tuple(next(values) if d is None else d for d in tensor.shape)
        self._set("height and width", f"{height},{width}", wanted)

    def set_dynamic_dims(self, text: str) -> None:
        """The gear of ``name:1,3,224,224;other:1,8``."""
        self._set("shapes", text, shapes_of(text, [t.name for t in self.session.inputs]))

    def set_dynamic_shape(self, text: str) -> None:
        """As ``set_dynamic_dims``: the shapes must be among those the model was converted for."""
        self.set_dynamic_dims(text)

    def set_custom_outsize(self, sizes: Sequence[int]) -> None:
        """Bytes reserved for each output; a run whose outputs need more fails. None reserved: no limit."""
        self._outsizes = list(sizes)

    def run(self, names: Sequence[str] | None, feeds: Sequence[Any]) -> list[Tensor]:
        """Execute ``loop`` times; outputs stay on the device."""
        found = self.execute(self.feed(feeds))
        chosen = found.values() if not names else [self._output(found, name) for name in names]
        return [Tensor.on_device(array, self.device_id) for array in chosen]

    def sumary(self) -> Summary:
        return self._summary

    summary = sumary

    def reset_sumaryinfo(self) -> None:
        self._summary.exec_time_list.clear()

    reset_summaryinfo = reset_sumaryinfo

    def create_tensor_from_fileslist(self, desc: TensorDesc, files: Sequence[str]) -> Tensor:
        """The raw contents of ``files``, one behind the other, as one input on the device."""
        raw = b"".join(Path(name).read_bytes() for name in files)
        tensor = Tensor(np.frombuffer(raw, np.uint8))
        tensor.to_device(self.device_id)
        return tensor

    def feed(self, feeds: Sequence[Any]) -> dict[str, Array]:
        """Inputs as the model's arrays; nothing is copied that already fits."""
        started = time.perf_counter()
        if not isinstance(feeds, Sequence | np.ndarray) or len(feeds) != len(self._static):
            given = len(feeds) if hasattr(feeds, "__len__") else type(feeds).__name__
            raise InferError(
                Problem(
                    "ASC4502",
                    f"{given} inputs were given; the model has {len(self._static)}: "
                    f"{', '.join(name for name, _, _ in self._static)}.",
                    fix="Give a list with one array for each input, in the order of get_inputs().",
                )
            )
        feed: dict[str, Array] = {}
        problems: list[Problem] = []
        shapes = self._now()
        for (name, _, dtype), shape, given in zip(self._static, shapes, feeds, strict=True):
            array = host_array(given)
            if array.dtype == dtype and (shape is None or array.shape == shape):
                feed[name] = array
            else:
                self._cast(name, dtype, shape, array, feed, problems)
        if problems:
            raise InferError(problems)
        MemorySummary.h2d.note((time.perf_counter() - started) * 1e3)
        return feed

    def execute(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name; the time of each of ``loop`` executions is noted."""
        session = self._current() or self.session
        times = self._summary.exec_time_list
        found: dict[str, Array] = {}
        try:
            for _ in range(self.options.loop):
                started = time.perf_counter()
                found = session.run(feed, self.dump)
                ended = time.perf_counter()
                times.note(Elapsed(started, ended))
                if self._watched is not None:
                    now = time.monotonic_ns()
                    self._watched.executed(now - round((ended - started) * 1e9), now, self._gear)
        except AscError as error:
            raise InferError(error.problems) from error
        for size, (name, array) in zip(self._outsizes, found.items(), strict=False):
            if array.nbytes > size:
                raise InferError(
                    Problem(
                        "ASC4503",
                        f"Output {name!r} takes {array.nbytes} bytes; {size} were reserved for it.",
                        fix="Pass larger custom_sizes (--outputSize).",
                    )
                )
        return found

    def _output(self, found: Mapping[str, Array], name: str) -> Array:
        for info, (own, array) in zip(self._out, found.items(), strict=True):
            if name in (own, info.name):
                return array
        names = ", ".join(info.name for info in self._out)
        raise InferError(
            Problem("ASC4505", f"The model has no output {name!r}; it has {names}.", fix="Use one of these.")
        )

    def _current(self) -> npu.Session | None:
        """The session of the shape that is set; None while none is."""
        if not isinstance(self.session, GearedSession):
            return self.session
        return None if self._gear is None else self.session.session(self._gear)

    def _now(self) -> list[tuple[int, ...] | None]:
        """The shapes that are set, by input."""
        if not self._gears:
            return [tuple(d or 0 for d in shape) for _, shape, _ in self._static]
        return [None if self._gear is None else self._gears[self._gear].get(name) for name, _, _ in self._static]

    def _set(self, what: str, text: str, wanted: Mapping[str, tuple[int | None, ...]]) -> None:
        if not self._gears:
            self._check_static(wanted)
            return
        for index, gear in enumerate(self._gears):
            fits = [
                name in gear
                and len(shape) == len(gear[name])
                and all(d is None or d == g for d, g in zip(shape, gear[name], strict=True))
                for name, shape in wanted.items()
            ]
            if fits and all(fits):
                self._gear = index
                return
        listed = "; ".join(", ".join(f"{n}:{list(s)}" for n, s in gear.items()) for gear in self._gears)
        raise InferError(
            Problem(
                "ASC4013",
                f"No gear of the model has the {what} {text}.",
                cause="The model was converted for certain shapes only.",
                fix=f"Use one of its gears: {listed}.",
            )
        )

    def _check_static(self, wanted: Mapping[str, tuple[int | None, ...]]) -> None:
        for name, shape, _ in self._static:
            asked = wanted.get(name)
            if asked is not None and asked != shape:
                raise InferError(
                    Problem(
                        "ASC4013",
                        f"The model was converted for {name} {list(shape)} only; {list(asked)} was asked for.",
                        fix="Convert it with gears (--dynamic_batch_size, --dynamic_image_size, --dynamic_dims).",
                    )
                )

    def _cast(
        self,
        name: str,
        dtype: np.dtype[Any],
        shape: tuple[int, ...] | None,
        array: Array,
        feed: dict[str, Array],
        problems: list[Problem],
    ) -> None:
        """The device knows bytes only: an array of as many bytes is taken as it lies in memory, others are refused."""
        if shape is None:
            problems.append(_misfit(name, dtype, None, array))
        elif array.nbytes == math.prod(shape) * dtype.itemsize:
            if array.dtype != dtype and array.dtype != np.uint8 and not self._warned:
                self._warned = True
                log.warning(
                    "input %s is %s and is read as %s, byte by byte, as the device does", name, array.dtype, dtype
                )
            feed[name] = np.ascontiguousarray(array).reshape(-1).view(dtype).reshape(shape)
        else:
            problems.append(_misfit(name, dtype, shape, array))


def shapes_of(text: str, names: Sequence[str]) -> dict[str, tuple[int | None, ...]]:
    """Shapes by input name from ``name:1,3;other:4``; names may contain colons. Raises ``InferError``."""
    found: dict[str, tuple[int | None, ...]] = {}
    problems: list[Problem] = []
    for part in filter(None, (p.strip() for p in text.split(";"))):
        name, _, dims = part.rpartition(":")
        if name not in names:
            problems.append(
                Problem("ASC4010", f"The model has no input {name or part!r}.", fix=f"Inputs are {', '.join(names)}.")
            )
        elif not re.fullmatch(r"\s*\d{1,9}(\s*,\s*\d{1,9})*\s*", dims):
            problems.append(
                Problem("ASC4506", f"{dims!r} is not a shape.", fix="Write positive numbers: name:1,3,224,224.")
            )
        else:
            found[name] = tuple(int(d) for d in dims.split(","))
    if problems or not found:
        raise InferError(problems or [Problem("ASC4506", "No shapes were given.", fix="Write name:1,3,224,224.")])
    return found


def _matching(infos: Sequence[TensorInfo], tensors: Sequence[npu.Tensor]) -> list[TensorInfo]:
    """The in/out description in the order of ``tensors``; made from them when a file has none that fits."""
    if len(infos) == len(tensors):
        return list(infos)
    return [
        TensorInfo(t.name, tuple(-1 if d is None else d for d in t.shape), dtypes.of_numpy(t.dtype).acl, 2, 0)
        for t in tensors
    ]


def _describe(info: TensorInfo, tensor: npu.Tensor, now: tuple[int | None, ...] | None) -> TensorDesc:
    """``tensor`` is of the largest gear, ``now`` the shape that is set."""
    size = math.prod(d or 0 for d in tensor.shape) * tensor.dtype.itemsize
    real = size if now is None else math.prod(d or 0 for d in now) * tensor.dtype.itemsize
    return TensorDesc(info.name, datatype(info.acl_dtype), info.format, list(info.shape), size, real)


def _misfit(name: str, dtype: np.dtype[Any], shape: tuple[int, ...] | None, array: Array) -> Problem:
    have = f"Input {name!r} is {array.dtype.name} {list(array.shape)} ({array.nbytes} bytes)"
    if shape is None and array.dtype == dtype:
        return Problem(
            "ASC4507", f"{have}, and no shape is set.", fix="Set the gear first (set_dynamic_...), or pass a mode."
        )
    if shape is None:
        return Problem("ASC4012", f"{have}; the model wants {dtype.name}.", fix=f"array.astype(numpy.{dtype.name})")
    wanted = math.prod(shape) * dtype.itemsize
    return Problem(
        "ASC4012",
        f"{have}; the model wants {dtype.name} {list(shape)} ({wanted} bytes).",
        fix="Convert it (array.astype, reshape), or convert the model again with another --input_shape.",
    )


def _join_profile() -> None:
    """Begin to collect when `msprof` started this program."""
    if os.environ.get("ASC_PROFILING"):
        from asc_devkit.profiling.collect import hook

        hook.install()


def _watched(file: om.OmFile, path: str | os.PathLike[str], device: int, started_ns: int) -> Watched | None:
    """The model as the profile of this process sees it; None when none is collected."""
    if "asc_devkit.profiling" not in sys.modules:
        return None
    from asc_devkit.profiling.collect import watch

    if watch.current() is None:
        return None
    model = watch.model(file, os.fspath(path), os.environ.get("ASC_SOC", ""), device)
    model.called("aclmdlLoadFromFile", started_ns, time.monotonic_ns())
    return model


def _device(number: Any) -> int:
    count = os.environ.get(DEVICES, "")
    limit = int(count) if count.isdecimal() and count != "0" else 8
    if not isinstance(number, int | np.integer) or not 0 <= number < limit:
        raise InferError(
            Problem(
                "107001",
                f"Device {number!r} does not exist: this machine has virtual devices 0 to {limit - 1}.",
                fix=f"Choose one of them, or set {DEVICES}.",
            )
        )
    return int(number)


def _dump_folder(config: str) -> Path | None:
    """The folder of the ``dump`` section of an acl.json."""
    if not config:
        return None
    path = Path(config)
    try:
        if path.stat().st_size > MAX_CONFIG:
            raise ValueError(f"larger than {MAX_CONFIG} bytes")
        given = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(given, dict):
            raise ValueError("not an object")
    except (OSError, ValueError) as error:
        raise InferError(
            Problem("E13001", f"{path} cannot be read as acl.json: {error}.", fix="Check acl_json_path.")
        ) from error
    dump = given.get("dump")
    folder = dump.get("dump_path") if isinstance(dump, dict) else None
    return Path(folder) if isinstance(folder, str) and folder else None
