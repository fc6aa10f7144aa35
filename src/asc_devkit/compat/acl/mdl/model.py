"""A model on the device: what the file says about its tensors, the gear that is set, execution."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from asc_devkit import npu, om, soc
from asc_devkit.compat.acl.mdl.datasets import Dataset
from asc_devkit.compat.acl.mdl.dump import dump_folder
from asc_devkit.errors import AscError
from asc_devkit.npu import device
from asc_devkit.npu.device import DeviceFault, Task, observe
from asc_devkit.npu.device.sites import call_site
from asc_devkit.npu.device.streams import Clock, Stream, now_ns
from asc_devkit.npu.geared import GearedSession
from asc_devkit.npu.numerics import Array
from asc_devkit.npu.preprocessing import AippSession
from asc_devkit.om import mbatch
from asc_devkit.om.inout import TensorInfo

Price = tuple[float, tuple[Any, ...]]


@dataclass(frozen=True)
class Input:
    """One input: ``tensor`` is None for the gear's values, which the runtime reads itself."""

    info: TensorInfo
    tensor: npu.Tensor | None
    flat: bool = False  # bytes of a picture in front of dynamic AIPP


@dataclass(eq=False)
class Model:
    """``number`` is the model id, ``name`` the file. ``gear`` is the shape set last (None: the largest)."""

    number: int
    name: str
    file: om.OmFile
    device: int
    reserved: int
    session: npu.Session
    site: str = field(default_factory=call_site)
    gear: int | None = None
    running: int = 0
    executions: int = 0

    def __post_init__(self) -> None:
        described = self.file.in_out
        by_name = {t.name: t for t in self.session.inputs}
        aipp = self.session if isinstance(self.session, AippSession) else None
        inner: npu.Session = self.session if aipp is None else aipp.inner
        self.geared = inner if isinstance(inner, GearedSession) else None
        infos = described.inputs
        self.inputs = tuple(
            Input(info, by_name.get(info.name), aipp is not None and info.name in aipp.dynamic) for info in infos
        )
        if sum(i.tensor is not None for i in self.inputs) != len(self.session.inputs):
            # Files of other makers may name inputs otherwise in the two places: go by position.
            rest = iter(self.session.inputs)
            self.inputs = tuple(Input(i, None if i.name == mbatch.DATA else next(rest, None)) for i in infos)
        self.outputs = described.outputs
        self._prices: dict[int | None, Price] = {}
        self._clock = Clock(self.device, device.current().next_stream_number())
        self._lock = threading.Lock()

    # Shapes

    def now(self, gear: int | None = None) -> npu.Session:
        """The static session of a gear (None: the largest)."""
        if self.geared is None:
            return self.session.inner if isinstance(self.session, AippSession) else self.session
        return self.geared.session(self.geared.largest if gear is None else gear)

    def output_shape(self, index: int, gear: int | None) -> tuple[int, ...]:
        """-1 where the size depends on the data."""
        return tuple(-1 if d is None else d for d in self.now(gear).outputs[index].shape)

    def gear_of(self, values: Sequence[int]) -> int:
        """Number of the gear with these values. Raises ``DeviceFault`` listing the gears."""
        geared = self.geared
        if geared is None:
            raise DeviceFault(
                "ACL_ERROR_MODEL_NOT_DYNAMIC",
                f"Model {self.name} was converted for one shape.",
                fix="Convert it with --dynamic_batch_size, --dynamic_image_size or --dynamic_dims.",
            )
        if tuple(values) in geared.values:
            return geared.values.index(tuple(values))
        listed = "; ".join(",".join(map(str, row)) for row in geared.values)
        raise DeviceFault(
            "ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID" if self.file.in_out.batch_gears else "ACL_ERROR_GE_PARAM_INVALID",
            f"Model {self.name} has no gear {','.join(map(str, values))}.",
            fix=f"Use one of {listed}.",
        )

    # Execution

    def execute(self, inputs: Dataset, outputs: Dataset) -> None:
        """Run now, on this thread."""
        job = _Job(self, inputs, outputs)
        if not (Clock.needed or observe.active()):
            job()
            return
        task = Task("model", self.name, job, job.price, self.number, now_ns(), threading.get_ident())
        begun = now_ns()
        job()
        self._clock.stamp(task, begun, now_ns())

    def submit(self, inputs: Dataset, outputs: Dataset, stream: Stream) -> None:
        """Run in the order of ``stream``. The memory is that of the buffers now; its contents are read in their turn."""
        job = _Job(self, inputs, outputs)
        with self._lock:
            self.running += 1
        try:
            stream.submit(Task("model", self.name, job.counted, job.price, self.number))
        except AscError:
            self.finished()
            raise

    def finished(self) -> None:
        with self._lock:
            self.running -= 1

    def count(self) -> int:
        """Number of this execution."""
        with self._lock:
            self.executions += 1
            return self.executions - 1

    def price(self, gear: int | None) -> Price:
        """Simulated microseconds of one execution, and its operators; nothing for chips the model of time lacks."""
        found = self._prices.get(gear)
        if found is None:
            from asc_devkit.perf import estimate

            try:
                chip = soc.resolve(str(self.file.attrs.get("soc_version", "")) or device.current().soc.name).soc
                made = estimate(self.file.to_ir(gear), chip)
                found = made.total_us, tuple(op for op in made.operators if op.us > 0)
            except AscError:
                found = 0.0, ()
            self._prices[gear] = found
        return found


class _Job:
    """One execution: the memory of all buffers, held from the call on."""

    __slots__ = ("gear", "model", "outputs", "raw", "room", "shapes")

    def __init__(self, model: Model, inputs: Dataset, outputs: Dataset) -> None:
        self.model = model
        self.outputs = outputs
        self.gear = model.gear
        if len(inputs.buffers) != len(model.inputs):
            raise _count("ACL_ERROR_MODEL_INPUT_NOT_MATCH", "inputs", len(model.inputs), len(inputs.buffers))
        if len(outputs.buffers) != len(model.outputs):
            raise _count("ACL_ERROR_MODEL_OUTPUT_NOT_MATCH", "outputs", len(model.outputs), len(outputs.buffers))
        self.raw = [
            item.raw(f"input {slot.info.name}") for slot, (_, item) in zip(model.inputs, inputs.buffers, strict=True)
        ]
        self.room = [
            (item, item.raw(f"output {info.name}") if item.address or item.size else None)
            for info, (_, item) in zip(model.outputs, outputs.buffers, strict=True)
        ]
        self.shapes = {i: _given(inputs, i) for i in inputs.descs} if inputs.descs else {}

    def price(self) -> Price:
        return self.model.price(self.gear)

    def counted(self) -> None:
        try:
            self()
        finally:
            self.model.finished()

    def __call__(self) -> None:
        model = self.model
        if model.geared is not None:
            self.gear = self._gear()
        fixed = model.geared is None and not self.shapes
        gear = {} if model.geared is None or self.gear is None else model.geared.gears[self.gear]
        feed: dict[str, Array] = {}
        for index, (slot, raw) in enumerate(zip(model.inputs, self.raw, strict=True)):
            tensor = slot.tensor
            if tensor is None:
                continue
            if slot.flat:
                feed[tensor.name] = raw
                continue
            shape = tensor.shape if fixed else self.shapes.get(index) or gear.get(tensor.name) or tensor.shape
            feed[tensor.name] = _typed(raw, tensor.dtype, shape, slot.info.name)
        folder = dump_folder(model)
        found = model.session.run(feed) if folder is None else model.session.run(feed, folder)
        for index, (array, (item, room)) in enumerate(zip(found.values(), self.room, strict=True)):
            info = model.outputs[index]
            if room is None:
                item.address = device.current().memory.allocate(max(array.nbytes, 1), model.device)
                item.size = array.nbytes
                item.block, item.data = None, None
                room = item.raw(info.name)
            elif array.nbytes > room.nbytes:
                raise DeviceFault(
                    "ACL_ERROR_MODEL_OUTPUT_NOT_MATCH",
                    f"Output {info.name} takes {array.nbytes} bytes; its buffer has {room.nbytes}.",
                    fix="Make the buffer as large as acl.mdl.get_output_size_by_index says.",
                )
            if array.nbytes:
                np.copyto(room[: array.nbytes].view(array.dtype).reshape(array.shape), array)
            self.outputs.note_shape(index, info.acl_dtype, array.shape, info.format)

    def _gear(self) -> int:
        """The gear whose values lie in the model's extra input."""
        geared = self.model.geared
        assert geared is not None
        for slot, raw in zip(self.model.inputs, self.raw, strict=True):
            if slot.info.name == mbatch.DATA:
                width = len(geared.values[0])
                values = tuple(int(v) for v in _typed(raw, np.dtype(np.int32), (width,), mbatch.DATA))
                if values not in geared.values and len(raw) >= width * 8:  # programs that write 64-bit numbers
                    wide = tuple(int(v) for v in raw[: width * 8].view(np.int64))
                    values = wide if wide in geared.values else values
                return self.model.gear_of(values)
        return geared.largest


def _typed(raw: Array, dtype: np.dtype[Any], shape: tuple[int | None, ...], name: str) -> Array:
    size = dtype.itemsize
    for extent in shape:
        size *= extent or 0
    if len(raw) != size:
        if len(raw) < size:
            raise DeviceFault(
                "ACL_ERROR_GE_PARAM_INVALID",
                f"Input {name} needs {size} bytes ({dtype.name} {list(shape)}); its buffer has {len(raw)}.",
            )
        raw = raw[:size]
    return raw.view(dtype).reshape(shape)


def _given(inputs: Dataset, index: int) -> tuple[int, ...]:
    from asc_devkit.compat.acl.objects import desc

    shape = desc(inputs.descs[index]).shape
    if any(d < 0 for d in shape) or prod(shape) < 0:
        raise DeviceFault("ACL_ERROR_GE_SHAPE_INVALID", f"The shape {list(shape)} set for input {index} is open.")
    return shape


def _count(status: str, what: str, wanted: int, given: int) -> DeviceFault:
    return DeviceFault(status, f"The model has {wanted} {what}; the dataset has {given} buffers.")
