"""The picture formats AIPP reads: number, channels, and the shape of the bytes a program has to supply; name and size of
the input that dynamic AIPP takes its parameters from.

Source: public ATC manual (AIPP: table of formats, formulas of the input sizes) and the aclmdlGetInputDimsV2 page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Picture:
    """``channels`` a pixel has when taken apart, ``stored`` in the last axis of the buffer, ``rows`` of the buffer per
    two rows of the picture (3 where half-size chroma follows the luma plane), ``yuv`` colours (else RGB)."""

    name: str
    code: int
    channels: int
    stored: int
    rows: int = 2
    yuv: bool = False

    def buffer_shape(self, batch: int, height: int, width: int) -> tuple[int, int, int, int]:
        """NHWC shape of the uint8 buffer of ``batch`` pictures of ``height`` x ``width`` pixels."""
        return batch, height * self.rows // 2, width, self.stored


PICTURES: Final[dict[str, Picture]] = {
    picture.name: picture
    for picture in (
        Picture("YUV420SP_U8", 1, channels=3, stored=1, rows=3, yuv=True),
        Picture("XRGB8888_U8", 2, channels=4, stored=4),
        Picture("RGB888_U8", 3, channels=3, stored=3),
        Picture("YUV400_U8", 4, channels=1, stored=1, yuv=True),
    )
}

#: The extra input of a model with dynamic AIPP; further ones have a number behind the name.
PARAMETER_INPUT: Final = "ascend_dynamic_aipp_data"
PARAMETER_HEAD_BYTES: Final = 64
PARAMETER_PICTURE_BYTES: Final = 96
MAX_PARAMETER_PICTURES: Final = 127  # the count is a signed byte


def parameter_bytes(batch: int) -> int:
    """Bytes of the parameter input of a model that takes ``batch`` pictures."""
    return PARAMETER_HEAD_BYTES + batch * PARAMETER_PICTURE_BYTES
