"""Which gear of a model `asc run` takes: as asked for, or as the sizes of the input files say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asc_devkit.npu import Session
    from asc_devkit.npu.geared import GearedSession
    from asc_devkit.npu.tensor_files import Sample


def asked(session: Session, batch: int | None, image: str | None, dims: str | None) -> int | None:
    """The gear that the options name, None without options. Raises ``AscError`` for contradictions and unknown gears."""
    from asc_devkit.errors import AscError, Problem
    from asc_devkit.frontends.shapes import parse_input_shape

    given = [text for text in (batch, image, dims) if text is not None]
    if not given:
        return None
    geared = _geared(session)
    if len(given) > 1 or geared is None:
        what = "Several of --dymBatch, --dymHW and --dymDims are given." if geared else "The model has no gears."
        raise AscError(Problem("ASC4016", what, fix="Leave them out." if geared is None else "Keep one."))
    if dims is not None:
        return geared.gear_of_shapes({name: tuple(shape) for name, shape in parse_input_shape(dims).items()})
    if batch is not None:
        return geared.gear_of_values([batch])
    assert image is not None
    if not re.fullmatch(r"\s*\d{1,9}\s*,\s*\d{1,9}\s*", image):
        raise AscError(
            Problem("ASC4016", f"--dymHW {image!r} is no height and width.", fix="For example --dymHW=320,640.")
        )
    return geared.gear_of_values([int(part) for part in image.split(",")])


def of_files(session: Session, sample: Sample) -> int | None:
    """The gear whose inputs have the shapes (``.npy``) or bytes (``.bin``) of the files; None for a static model and for
    random inputs. Raises ``AscError`` when none fits, or several do."""
    from asc_devkit.errors import AscError, Problem
    from asc_devkit.npu import tensor_files

    geared = _geared(session)
    if geared is None or not sample.files:
        return None
    found = tensor_files.fitting(sample, {i: session.fixed_inputs(i) for i in range(len(geared.gears))})
    if not found:
        raise geared.no_gear({name: str(path) for name, path in sample.files.items()})
    if len(found) > 1:
        listed = "; ".join(str({n: list(s) for n, s in geared.gears[i].items()}) for i in found)
        raise AscError(
            Problem(
                "ASC4017",
                f"The files fit several gears: {listed}.",
                cause="A raw file tells its bytes only.",
                fix="Name the gear with --dymBatch, --dymHW or --dymDims.",
                nodes=tuple(str(path) for path in sample.files.values()),
            )
        )
    return found[0]


def _geared(session: Session) -> GearedSession | None:
    from asc_devkit.npu.geared import GearedSession

    inner = getattr(session, "inner", session)
    return inner if isinstance(inner, GearedSession) else None
