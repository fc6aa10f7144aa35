"""One model file of any framework: which front end reads it, and what it gives. Called by ``atc``, ``check`` and ``cli``.

Front ends other than ONNX make an ONNX model in memory, which then goes the same way as a file.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from asc_devkit.errors import AscError, Problem

if TYPE_CHECKING:
    import onnx

    from asc_devkit.frontends.onnx import Loaded

Shape = tuple[int, ...]
Shapes = Mapping[str, Sequence[int]]

MAX_MESSAGE_BYTES: Final = (1 << 31) - 1  # protobuf's own limit
_BY_SUFFIX: Final = {".prototxt": "0", ".caffemodel": "0", ".pb": "3"}


#: Files that rooms above this one read: suffix -> reader that gives an ONNX model and remarks (``atc.offline`` adds .om).
READERS: Final[dict[str, Callable[[Path], tuple[onnx.ModelProto, list[str]]]]] = {}


def framework_of(path: str | Path) -> str:
    """The ``--framework`` number that fits the file's name ("5", ONNX, when it says nothing)."""
    return _BY_SUFFIX.get(Path(path).suffix.lower(), "5")


@dataclass
class Source:
    """A model file as given: ``framework`` is ATC's number as text, ``weight`` the second file of a Caffe net."""

    path: Path
    framework: str = "5"
    weight: Path | None = None
    _made: tuple[onnx.ModelProto, list[str]] | None = field(default=None, repr=False)

    @property
    def is_onnx(self) -> bool:
        """Whether the file is read as it is, without an ONNX model being made first."""
        return self.framework == "5" and self._reader is None and not self._is_torch

    @property
    def _reader(self) -> Callable[[Path], tuple[onnx.ModelProto, list[str]]] | None:
        return READERS.get(self.path.suffix.lower()) if self.framework == "5" else None

    @property
    def _is_torch(self) -> bool:
        from asc_devkit.frontends.torch.archive import is_exported_program

        return self.framework == "5" and is_exported_program(self.path)

    def load(
        self,
        input_shapes: Shapes | None = None,
        out_nodes: Sequence[str] | None = None,
        host_ops: bool = False,
        allow_empty: bool = False,
    ) -> Loaded:
        """The model in canonical form (see ``frontends.onnx.load``). Raises ``AscError``."""
        from asc_devkit.frontends.onnx import load

        if self.is_onnx:
            return load(self.path, input_shapes, out_nodes, host_ops, allow_empty)
        model, warnings = self.to_onnx(input_shapes, out_nodes)
        if self.framework == "3":  # cut where asked already, and names may carry an output index
            out_nodes = None
            input_shapes = {name.removesuffix(":0"): shape for name, shape in (input_shapes or {}).items()}
        loaded = load(self.path, input_shapes, out_nodes, host_ops, allow_empty, data=_serialized(model, self.path))
        return type(loaded)(loaded.model, (*warnings, *loaded.warnings), loaded.original, loaded.dynamic)

    def to_onnx(
        self, input_shapes: Shapes | None = None, out_nodes: Sequence[str] | None = None
    ) -> tuple[onnx.ModelProto, list[str]]:
        """The ONNX model made of a file of another framework, and remarks for the user.

        ``out_nodes``: what they do not need may be left out. Raises ``AscError``.
        """
        if self.framework == "0":
            from asc_devkit.frontends import caffe

            return caffe.to_onnx(*self._caffe_files(), str(self.path), input_shapes, out_nodes)
        if self._made is None:  # what follows does not depend on the sizes of axes: made once for all gears
            self._made = self._made_once(input_shapes, out_nodes)
        return self._made

    def _made_once(
        self, input_shapes: Shapes | None, out_nodes: Sequence[str] | None
    ) -> tuple[onnx.ModelProto, list[str]]:
        if self._reader is not None:
            return self._reader(self.path)
        if self._is_torch:
            from asc_devkit.frontends import torch

            return torch.to_onnx(self.path), []
        if self.framework == "3":
            from asc_devkit.frontends import tensorflow

            return tensorflow.to_onnx(read_file(self.path, "--model"), self.path, input_shapes, out_nodes), []
        raise AscError(_not_read(self.framework))

    def declared_inputs(self) -> dict[str, Shape]:
        """Input names and shapes before ``--input_shape``: -1 for open axes, () if not stated. Raises ``AscError``."""
        if self.framework == "0":
            from asc_devkit.frontends import caffe

            return caffe.input_shapes(self._caffe_files()[0], str(self.path))
        if self.framework == "3":
            from asc_devkit.frontends import tensorflow

            return tensorflow.input_shapes(read_file(self.path, "--model"), self.path)
        return {
            name: tuple(d if isinstance(d, int) and d > 0 else -1 for d in dims or ())
            for name, (_, dims) in self.load().original.inputs.items()
        }

    def _caffe_files(self) -> tuple[bytes | mmap.mmap, bytes | mmap.mmap]:
        if self.weight is None:
            raise AscError(
                Problem(
                    "E10008",
                    "[--weight] is required for a Caffe model.",
                    "A Caffe net is two files: the structure (.prototxt) and the weights (.caffemodel).",
                    "Add --weight=FILE.caffemodel and give the .prototxt with --model.",
                    ("--weight",),
                    "EE1001",
                )
            )
        return read_file(self.path, "--model"), read_file(self.weight, "--weight")


def read_file(path: Path, option: str) -> bytes | mmap.mmap:
    """The content of a regular file, mapped when large. Raises ``AscError`` (E10041)."""
    from asc_devkit.frontends.onnx.tensors import map_file

    try:
        if not path.is_dir():
            return map_file(path)
        what = "it is a folder"
    except FileNotFoundError:
        what = "there is no such file"
    except OSError as error:
        what = error.strerror or str(error)
    except ValueError:
        what = "that is no valid path"
    raise AscError(
        Problem(
            "E10041",
            f"cannot read {str(path)!r}: {what}",
            "",
            f"check the path given with {option}",
            (str(path)[:300],),
            "EE1001",
        )
    )


def _serialized(model: onnx.ModelProto, path: Path) -> bytes:
    if model.ByteSize() <= MAX_MESSAGE_BYTES:
        return bytes(model.SerializeToString())
    raise AscError(
        Problem(
            "E10041",
            f"{str(path)!r} is too large: its ONNX form would exceed 2 GiB",
            "A protobuf message cannot be larger.",
            "Export it to ONNX with external data and convert the .onnx file with --framework=5.",
            (str(path)[:300],),
            "EE1001",
        )
    )


def _not_read(framework: str) -> Problem:
    hint = {
        "1": "Export the MindSpore model to ONNX (mindspore.export(..., file_format='ONNX')).",
    }
    return Problem(
        "E10055",
        f"--framework={framework} is not supported yet.",
        cause="This version reads ONNX, Caffe and TensorFlow models.",
        fix=hint.get(framework, "Use --framework=5."),
        nodes=("--framework",),
        seed_class="EE1055",
    )
