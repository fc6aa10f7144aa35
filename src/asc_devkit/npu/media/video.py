"""Video packets to pictures and back, by PyAV (extra ``media``): what VDEC and VENC do."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from asc_devkit.npu.media import colour, formats
from asc_devkit.npu.media.formats import MediaError
from asc_devkit.npu.media.planes import Planes

# acldvppStreamFormat: H.265 main, H.264 baseline, main, high
CODECS: Final = {0: "hevc", 1: "h264", 2: "h264", 3: "h264"}
ENCODERS: Final = {0: "libx265", 1: "libx264", 2: "libx264", 3: "libx264"}
PROFILES: Final = {1: "baseline", 2: "main", 3: "high"}
MAX_SIDE: Final = 8192


class Decoder:
    """H.264 or H.265 packets (Annex B) to 4:2:0 pictures, in the order they are shown."""

    def __init__(self, entype: int) -> None:
        if entype not in CODECS:
            raise MediaError(f"the video coding {entype} does not exist (0: H.265, 1 to 3: H.264)")
        av = pyav()
        self._context = av.CodecContext.create(CODECS[entype], "r")
        self._context.thread_count = 1
        self._packet = av.Packet
        self._errors = (av.error.FFmpegError, ValueError)

    def send(self, data: bytes) -> list[Planes]:
        """Pictures that are complete with this packet. Raises ``MediaError`` for data that cannot be decoded."""
        try:
            found = []
            for packet in self._context.parse(data) + self._context.parse(None):
                found += self._context.decode(packet)
            return [_planes(frame) for frame in found]
        except self._errors as error:
            raise MediaError(f"the video data cannot be decoded: {str(error)[:200]}") from error

    def flush(self) -> list[Planes]:
        """The pictures still inside; the decoder is at its end afterwards."""
        try:
            return [_planes(frame) for frame in self._context.decode(None)]
        except self._errors:
            return []


class Encoder:
    """4:2:0 pictures of one size to H.264 or H.265 (Annex B), one packet out for each picture in: no B frames."""

    def __init__(self, entype: int, width: int, height: int, key_interval: int) -> None:
        if entype not in ENCODERS:
            raise MediaError(f"the video coding {entype} does not exist (0: H.265, 1 to 3: H.264)")
        if not (16 <= width <= MAX_SIDE and 16 <= height <= MAX_SIDE) or width % 2 or height % 2:
            raise MediaError(f"video of {width} x {height} cannot be encoded: even sizes from 16 to {MAX_SIDE}")
        av = pyav()
        options = {"preset": "veryfast", "tune": "zerolatency"}
        if entype in PROFILES:
            options["profile"] = PROFILES[entype]
        else:
            options["x265-params"] = "log-level=none"
        from fractions import Fraction

        context = av.CodecContext.create(ENCODERS[entype], "w")
        context.width, context.height, context.pix_fmt = width, height, "yuv420p"
        context.time_base, context.framerate = Fraction(1, 25), Fraction(25)
        context.gop_size, context.max_b_frames, context.thread_count = max(key_interval, 1), 0, 1
        context.options = options
        self._context, self._frame, self._count = context, av.VideoFrame, 0
        self._key = av.video.frame.PictureType.I
        self._errors = (av.error.FFmpegError, ValueError)
        self.width, self.height = width, height

    def send(self, planes: Planes, force_key: bool) -> list[bytes]:
        """Packets that are complete with this picture. Raises ``MediaError``."""
        if (planes.width, planes.height) != (self.width, self.height):
            raise MediaError(f"a picture of {planes.width} x {planes.height} in a {self.width} x {self.height} video")
        planar = colour.convert(planes, formats.of(1))
        flat = np.concatenate([np.ascontiguousarray(planar.values[n]).reshape(-1) for n in "YUV"])
        frame = self._frame.from_ndarray(flat.reshape(self.height * 3 // 2, self.width), format="yuv420p")
        frame.pts, self._count = self._count, self._count + 1
        if force_key:
            frame.pict_type = self._key
        try:
            return [bytes(packet) for packet in self._context.encode(frame)]
        except self._errors as error:
            raise MediaError(f"the picture cannot be encoded: {str(error)[:200]}") from error

    def flush(self) -> list[bytes]:
        """The packets still inside; the encoder is at its end afterwards."""
        try:
            return [bytes(packet) for packet in self._context.encode(None)]
        except self._errors:
            return []


def _planes(frame: Any) -> Planes:
    if frame.width > MAX_SIDE or frame.height > MAX_SIDE:
        raise MediaError(f"video of {frame.width} x {frame.height} is too large")
    width, height = frame.width - frame.width % 2, frame.height - frame.height % 2
    flat = frame.to_ndarray(format="yuv420p")
    luma = flat[: frame.height, : frame.width]
    size = (frame.height // 2) * (frame.width // 2)
    chroma = flat[frame.height :].reshape(-1)
    shape = (frame.height // 2, frame.width // 2)
    values = {"Y": luma, "U": chroma[:size].reshape(shape), "V": chroma[size : 2 * size].reshape(shape)}
    return Planes(values, (2, 2)).crop(0, 0, width, height)


def pyav() -> Any:
    """The PyAV module. Raises ``MediaError`` naming the extra when it is not installed."""
    try:
        import av
        import av.error
        import av.video.frame
    except ImportError as error:
        raise MediaError("video needs PyAV: pip install 'asc-devkit[media]'") from error
    return av
