"""A model with gears: the session of the gear that the shapes of the inputs ask for, made when first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from os import PathLike

import numpy as np

from asc_devkit.errors import AscError, Problem
from asc_devkit.npu.feeds import Inputs, Tensor
from asc_devkit.npu.lower import Output
from asc_devkit.npu.numerics import Array
from asc_devkit.npu.session import Session

Gear = Mapping[str, tuple[int, ...]]


class GearedSession(Session):
    """Runs like any session; ``inputs`` and ``outputs`` have None where gears differ, ``operators`` and ``info`` are
    those of the largest gear, ``gears`` lists the input shapes of all and ``values`` what the open axes are in each: the
    batch, height and width, or all open axes in order."""

    def __init__(
        self, gears: Sequence[Gear], make: Callable[[int], Session], values: Sequence[tuple[int, ...]] = ()
    ) -> None:
        self.gears = tuple(gears)
        self.values = tuple(values)
        self._make = make
        self._sessions: dict[int, Session] = {}
        self._largest = max(range(len(gears)), key=lambda i: sum(prod(s) for s in gears[i].values()))
        first = self.session(self._largest)
        self.inputs = tuple(self._open(tensor) for tensor in first.inputs)
        self.outputs = tuple(Tensor(t.name, tuple(None for _ in t.shape), t.dtype) for t in first.outputs)
        self.info = {**first.info, "gears": [{n: list(s) for n, s in gear.items()} for gear in gears]}

    @property
    def operators(self) -> tuple[Output, ...]:
        return self.session(self._largest).operators

    def session(self, index: int) -> Session:
        """The session of one gear."""
        if index not in self._sessions:
            self._sessions[index] = self._make(index)
        return self._sessions[index]

    @property
    def largest(self) -> int:
        """Which gear has the largest inputs."""
        return self._largest

    def fixed_inputs(self, gear: int | None = None) -> tuple[Tensor, ...]:
        return self.session(self._largest if gear is None else gear).inputs

    def gear_of_values(self, values: Sequence[int]) -> int:
        """Number of the gear with these values of the open axes; raises ``AscError`` (ASC4013) listing the gears."""
        if tuple(values) in self.values:
            return self.values.index(tuple(values))
        raise self._unknown(",".join(map(str, values)), ())

    def gear_of_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> int:
        """Number of the first gear in which the named inputs have these shapes; raises ``AscError`` (ASC4013)."""
        for index, gear in enumerate(self.gears):
            if all(gear.get(name) == shape for name, shape in shapes.items()):
                return index
        raise self._unknown(", ".join(f"{n} {list(s)}" for n, s in shapes.items()), tuple(shapes))

    def no_gear(self, files: Mapping[str, str]) -> AscError:
        """The error for input files that have the size of no gear."""
        return self._unknown(", ".join(f"{name} from {path}" for name, path in files.items()), tuple(files))

    def run(
        self, inputs: Inputs, dump: PathLike[str] | str | bool | None = None, dump_format: str = "npy"
    ) -> dict[str, Array]:
        """As ``Session.run``; raises ``AscError`` (ASC4013) listing the gears when the shapes fit none."""
        return self._chosen(inputs).run(inputs, dump, dump_format)

    def run_with_values(
        self, inputs: Inputs, names: Iterable[str] | None = None
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """As ``Session.run_with_values``, of the gear that the inputs ask for."""
        return self._chosen(inputs).run_with_values(inputs, names)

    def _open(self, tensor: Tensor) -> Tensor:
        shapes = [gear[tensor.name] for gear in self.gears if tensor.name in gear]
        dims = tuple(
            d if all(s[axis : axis + 1] == (d,) for s in shapes) else None for axis, d in enumerate(tensor.shape)
        )
        return Tensor(tensor.name, dims, tensor.dtype)

    def _chosen(self, inputs: Inputs) -> Session:
        given = (
            inputs if isinstance(inputs, Mapping) else dict(zip((t.name for t in self.inputs), inputs, strict=False))
        )
        shapes = {name: np.shape(array) for name, array in given.items()}
        for index, gear in enumerate(self.gears):
            if all(shapes.get(name) == shape for name, shape in gear.items()):
                return self.session(index)
        raise self._unknown(", ".join(f"{n} {list(s)}" for n, s in shapes.items()), tuple(shapes))

    def _unknown(self, asked: str, nodes: tuple[str, ...]) -> AscError:
        listed = "; ".join(
            f"gear {i}: " + ", ".join(f"{n} {list(s)}" for n, s in gear.items()) for i, gear in enumerate(self.gears)
        )
        return AscError(
            Problem(
                "ASC4013",
                f"No gear of the model fits {asked or 'a run without inputs'}.",
                cause="The model was converted for certain shapes only.",
                fix=f"Pad or resize the inputs to one of them: {listed}.",
                nodes=nodes,
            )
        )
