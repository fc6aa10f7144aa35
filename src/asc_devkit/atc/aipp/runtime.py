"""A configuration file of static AIPP as the parameters of a run with dynamic AIPP."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from asc_devkit.atc.aipp.config import Aipp, DynamicAipp, invalid
from asc_devkit.atc.aipp.reading import load
from asc_devkit.errors import AscError
from asc_devkit.npu import AippParameters, PictureParameters
from asc_devkit.npu.preprocessing import AippSession


def set_from_file(session: AippSession, path: Path) -> None:
    """Give ``session`` the parameters that the ``aipp_op`` blocks of the file hold, by input name or rank.

    Raises ``AscError`` for what is wrong in the file, and for what only static AIPP offers.
    """
    names = [tensor.name for tensor in session.inputs]
    for found in load(path):
        if isinstance(found, DynamicAipp):
            raise AscError(invalid(f"{path.name} says aipp_mode: dynamic", "Write the parameters of a static aipp_op."))
        rank = found.related_input_rank
        name = found.related_input_name or (names[rank] if rank < len(names) else f"input {rank}")
        session.set_aipp(parameters(_sized(found, session, name)), name)


def _sized(aipp: Aipp, session: AippSession, name: str) -> Aipp:
    """Sizes left open are those of the model."""
    if name in session.dynamic:
        _, _, height, width = session.dynamic[name].shape
        if not aipp.src_image_size_w:
            aipp = replace(aipp, src_image_size_w=width, src_image_size_h=height)
        if aipp.crop:
            aipp = replace(aipp, crop_size_w=aipp.crop_size_w or width, crop_size_h=aipp.crop_size_h or height)
    return aipp


def parameters(aipp: Aipp) -> AippParameters:
    """The same preprocessing as parameters of a run. Raises ``AscError`` (E10052) for a padding that is not black."""
    if aipp.padding and aipp.padding_value:
        raise AscError(
            invalid("padding_value is given, and dynamic AIPP pads with 0", "Remove it.", ("padding_value",))
        )
    one = PictureParameters(**{name: getattr(aipp, name) for name in PictureParameters.__dataclass_fields__})
    shared = {name: getattr(aipp, name) for name in AippParameters.__dataclass_fields__ if name != "pictures"}
    return AippParameters(**shared, pictures=[one])
