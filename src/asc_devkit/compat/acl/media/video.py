"""VDEC and VENC: channels that decode or encode on a stream of their own and call back on the program's thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from asc_devkit.compat.acl.calls import call
from asc_devkit.compat.acl.media.descriptions import PicDesc, StreamDesc, _getter, _setter, format_of, get, refused
from asc_devkit.npu import device
from asc_devkit.npu.device import DeviceFault, Task
from asc_devkit.npu.device.reports import launch
from asc_devkit.npu.media import colour
from asc_devkit.npu.media.formats import MediaError
from asc_devkit.npu.media.planes import Planes
from asc_devkit.npu.media.video import Decoder, Encoder
from asc_devkit.npu.media.vision import Picture

CLOSING_S: Final = 30.0  # how long the end of a channel waits for callbacks nobody asks for
Waiting = tuple[int, int, Any]  # input, output, user data


@dataclass(eq=False)
class _Channel:
    """What both kinds share. ``stream``: handle of the channel's own stream, 0 until the channel is created."""

    channel_id: int = 0
    thread_id: int = 0
    callback: Callable[..., object] | None = None
    entype: int = 0
    stream: int = 0
    waiting: deque[Waiting] = field(default_factory=deque)

    def open(self) -> None:
        """Make the stream and let the program's thread run its callbacks."""
        if self.stream:
            raise DeviceFault("ACL_ERROR_INVALID_PARAM", "The channel exists already.", fix="Destroy it first.")
        if self.callback is None or not self.thread_id:
            what = "The channel has no callback or no thread."
            raise DeviceFault("ACL_ERROR_INVALID_PARAM", what, fix="Set the callback and the thread id first.")
        runtime = device.current()
        self.stream = runtime.create_stream()
        runtime.subscriptions.subscribe(self.thread_id, runtime.stream(self.stream))

    def close(self) -> None:
        """Wait for what was sent, and forget the stream."""
        runtime = device.current()
        queue = runtime.stream(self.ready())
        queue.synchronize(CLOSING_S)
        queue.synchronize(CLOSING_S)  # the callbacks that the work before has queued
        runtime.subscriptions.unsubscribe(self.thread_id, queue)
        runtime.destroy_stream(self.stream)
        self.stream = 0

    def ready(self) -> int:
        """The stream of a channel that exists. Raises ``DeviceFault``."""
        if not self.stream:
            raise DeviceFault("ACL_ERROR_INVALID_PARAM", "The channel does not exist.", fix="Create it first.")
        return self.stream

    def tell(self, source: int, target: int, user_data: Any) -> None:
        """Queue the program's callback."""
        callback = self.callback
        assert callback is not None
        launch(lambda _: callback(source, target, user_data), None, True, device.current().stream(self.stream))


@dataclass(eq=False)
class VdecChannel(_Channel):
    out_pic_format: int = 1
    out_pic_width: int = 0
    out_pic_height: int = 0
    ref_frame_num: int = 0
    out_mode: int = 0
    bit_depth: int = 0
    decoder: Decoder | None = None


@dataclass(eq=False)
class VencChannel(_Channel):
    pic_format: int = 1
    pic_width: int = 0
    pic_height: int = 0
    key_frame_interval: int = 1
    rc_mode: int = 0
    max_bit_rate: int = 0
    src_rate: int = 0
    encoder: Encoder | None = None


@dataclass(eq=False)
class FrameConfig:
    eos: int = 0
    force_i_frame: int = 0


def _callback_setter(function: str, kind: type[Any]) -> Any:
    @call(function)
    def set_callback(handle: int, callback: Callable[..., object], /) -> None:
        if not callable(callback):
            raise TypeError("parameter must be callable")
        get(handle, kind).callback = callback

    return set_callback


def _creator(function: str, kind: type[Any]) -> Any:
    @call(function, 0, bare=True)
    def create() -> int:
        return device.current().handles.add(kind())

    return create


def _destroyer(function: str, kind: type[Any]) -> Any:
    @call(function)
    def destroy(handle: int, /) -> None:
        device.current().handles.remove(handle, kind)

    return destroy


# --- decoding -------------------------------------------------------------------------------------------------------

vdec_create_channel_desc = _creator("aclvdecCreateChannelDesc", VdecChannel)
vdec_destroy_channel_desc = _destroyer("aclvdecDestroyChannelDesc", VdecChannel)
vdec_set_channel_desc_callback = _callback_setter("aclvdecSetChannelDescCallback", VdecChannel)
vdec_create_frame_config = _creator("aclvdecCreateFrameConfig", FrameConfig)
vdec_destroy_frame_config = _destroyer("aclvdecDestroyFrameConfig", FrameConfig)
vdec_set_channel_desc_channel_id = _setter("channel_id", "aclvdecSetChannelDescChannelId", VdecChannel)
vdec_set_channel_desc_thread_id = _setter("thread_id", "aclvdecSetChannelDescThreadId", VdecChannel)
vdec_set_channel_desc_entype = _setter("entype", "aclvdecSetChannelDescEnType", VdecChannel)
vdec_set_channel_desc_out_pic_format = _setter("out_pic_format", "aclvdecSetChannelDescOutPicFormat", VdecChannel)
vdec_set_channel_desc_out_pic_width = _setter("out_pic_width", "aclvdecSetChannelDescOutPicWidth", VdecChannel)
vdec_set_channel_desc_out_pic_height = _setter("out_pic_height", "aclvdecSetChannelDescOutPicHeight", VdecChannel)
vdec_set_channel_desc_ref_frame_num = _setter("ref_frame_num", "aclvdecSetChannelDescRefFrameNum", VdecChannel)
vdec_set_channel_desc_out_mode = _setter("out_mode", "aclvdecSetChannelDescOutMode", VdecChannel)
vdec_set_channel_desc_bit_depth = _setter("bit_depth", "aclvdecSetChannelDescBitDepth", VdecChannel)
vdec_get_channel_desc_channel_id = _getter("channel_id", "aclvdecGetChannelDescChannelId", VdecChannel)
vdec_get_channel_desc_entype = _getter("entype", "aclvdecGetChannelDescEnType", VdecChannel)
vdec_get_channel_desc_out_pic_format = _getter("out_pic_format", "aclvdecGetChannelDescOutPicFormat", VdecChannel)
vdec_get_channel_desc_out_mode = _getter("out_mode", "aclvdecGetChannelDescOutMode", VdecChannel)


@call("aclvdecCreateChannel")
def vdec_create_channel(channel_desc: int, /) -> None:
    found: VdecChannel = get(channel_desc, VdecChannel)
    format_of(found.out_pic_format)
    try:
        decoder = Decoder(found.entype)
    except MediaError as error:
        raise refused(error) from error
    found.open()
    found.decoder = decoder


@call("aclvdecDestroyChannel")
def vdec_destroy_channel(channel_desc: int, /) -> None:
    found: VdecChannel = get(channel_desc, VdecChannel)
    found.ready()
    _flush(found)
    found.close()
    found.decoder = None


@call("aclvdecSendFrame")
def vdec_send_frame(channel_desc: int, input_stream: int, output_picture: int, config: int, user_data: Any, /) -> None:
    """A packet, and the picture that its decoded frame goes to; an end-of-stream packet flushes the decoder."""
    found: VdecChannel = get(channel_desc, VdecChannel)
    stream = found.ready()
    packet: StreamDesc = get(input_stream, StreamDesc)
    if packet.eos:
        _flush(found)
        return
    raw = device.current().memory.array(packet.data, packet.size, "video packet")
    get(output_picture, PicDesc)
    body = raw.tobytes()

    def work() -> None:
        found.waiting.append((input_stream, output_picture, user_data))
        assert found.decoder is not None
        try:
            frames = found.decoder.send(body)
        except MediaError as error:
            packet.ret_code = 1
            source, target, data = found.waiting.pop()
            found.tell(source, target, data)
            raise refused(error) from error
        _deliver(found, frames)

    device.current().stream(stream).submit(Task("dvpp", "Vdec", work))


def _flush(found: VdecChannel) -> None:
    def work() -> None:
        assert found.decoder is not None
        _deliver(found, found.decoder.flush())

    device.current().stream(found.stream).submit(Task("dvpp", "VdecFlush", work))


def _deliver(found: VdecChannel, frames: list[Planes]) -> None:
    for planes in frames:
        if not found.waiting:
            return
        source, target, user_data = found.waiting.popleft()
        picture: PicDesc = get(target, PicDesc)
        try:
            _write(picture, colour.convert(planes, format_of(found.out_pic_format)), found.out_pic_format)
            picture.ret_code = 0
        except (MediaError, DeviceFault):
            picture.ret_code = 1
        found.tell(source, target, user_data)


def _write(picture: PicDesc, planes: Planes, number: int) -> None:
    wanted = format_of(number)
    picture.width, picture.height, picture.format = planes.width, planes.height, number
    picture.width_stride = picture.width_stride or -(-planes.width // 16) * 16 * wanted.row_bytes
    picture.height_stride = picture.height_stride or -(-planes.height // 2) * 2
    room = device.current().memory.array(picture.data, picture.size, "output picture")
    if wanted.size(picture.width_stride, picture.height_stride) > len(room):
        raise MediaError("the output picture is too small")
    made = Picture(room, wanted, planes.width, planes.height, picture.width_stride, picture.height_stride)
    made.put(planes)


# --- encoding -------------------------------------------------------------------------------------------------------

venc_create_channel_desc = _creator("aclvencCreateChannelDesc", VencChannel)
venc_destroy_channel_desc = _destroyer("aclvencDestroyChannelDesc", VencChannel)
venc_set_channel_desc_callback = _callback_setter("aclvencSetChannelDescCallback", VencChannel)
venc_create_frame_config = _creator("aclvencCreateFrameConfig", FrameConfig)
venc_destroy_frame_config = _destroyer("aclvencDestroyFrameConfig", FrameConfig)
venc_set_frame_config_eos = _setter("eos", "aclvencSetFrameConfigEos", FrameConfig)
venc_get_frame_config_eos = _getter("eos", "aclvencGetFrameConfigEos", FrameConfig)
venc_set_frame_config_force_i_frame = _setter("force_i_frame", "aclvencSetFrameConfigForceIFrame", FrameConfig)
venc_get_frame_config_force_i_frame = _getter("force_i_frame", "aclvencGetFrameConfigForceIFrame", FrameConfig)
venc_set_channel_desc_thread_id = _setter("thread_id", "aclvencSetChannelDescThreadId", VencChannel)
venc_set_channel_desc_entype = _setter("entype", "aclvencSetChannelDescEnType", VencChannel)
venc_set_channel_desc_pic_format = _setter("pic_format", "aclvencSetChannelDescPicFormat", VencChannel)
venc_set_channel_desc_pic_width = _setter("pic_width", "aclvencSetChannelDescPicWidth", VencChannel)
venc_set_channel_desc_pic_height = _setter("pic_height", "aclvencSetChannelDescPicHeight", VencChannel)
venc_set_channel_desc_key_frame_interval = _setter(
    "key_frame_interval", "aclvencSetChannelDescKeyFrameInterval", VencChannel
)
venc_set_channel_desc_rc_mode = _setter("rc_mode", "aclvencSetChannelDescRcMode", VencChannel)
venc_set_channel_desc_max_bit_rate = _setter("max_bit_rate", "aclvencSetChannelDescMaxBitRate", VencChannel)
venc_set_channel_desc_src_rate = _setter("src_rate", "aclvencSetChannelDescSrcRate", VencChannel)


@call("aclvencCreateChannel")
def venc_create_channel(channel_desc: int, /) -> None:
    found: VencChannel = get(channel_desc, VencChannel)
    format_of(found.pic_format)
    try:
        encoder = Encoder(found.entype, found.pic_width, found.pic_height, found.key_frame_interval)
    except MediaError as error:
        raise refused(error) from error
    found.open()
    found.encoder = encoder


@call("aclvencDestroyChannel")
def venc_destroy_channel(channel_desc: int, /) -> None:
    found: VencChannel = get(channel_desc, VencChannel)
    found.ready()
    found.close()
    found.encoder = None


@call("aclvencSendFrame")
def venc_send_frame(channel_desc: int, input_picture: int, reserve: int, config: int, user_data: Any, /) -> None:
    """A picture to encode; a configuration with ``eos`` flushes the encoder."""
    found: VencChannel = get(channel_desc, VencChannel)
    stream = found.ready()
    settings: FrameConfig = get(config, FrameConfig)
    force = bool(settings.force_i_frame)
    if settings.eos:
        device.current().stream(stream).submit(Task("dvpp", "VencFlush", lambda: _packets(found, None, force)))
        return
    picture: PicDesc = get(input_picture, PicDesc)
    planes = picture.picture("input picture").planes()

    def work() -> None:
        found.waiting.append((input_picture, 0, user_data))
        _packets(found, planes, force)

    device.current().stream(stream).submit(Task("dvpp", "Venc", work))


@dataclass(frozen=True)
class _PacketReport:
    """The callback for one packet, which is the program's for the time of the call."""

    callback: Callable[..., object]
    source: int
    target: int
    address: int
    user_data: Any

    def __call__(self, _: Any) -> None:
        runtime = device.current()
        try:
            self.callback(self.source, self.target, self.user_data)
        finally:
            runtime.handles.remove(self.target, StreamDesc)
            runtime.memory.free(self.address, False, "dvpp")


def _packets(found: VencChannel, planes: Planes | None, force: bool) -> None:
    assert found.encoder is not None
    try:
        made = found.encoder.flush() if planes is None else found.encoder.send(planes, force)
    except MediaError as error:
        raise refused(error) from error
    runtime = device.current()
    for body in made:
        source, _, user_data = found.waiting.popleft() if found.waiting else (0, 0, None)
        address = runtime.memory.allocate(max(len(body), 1), runtime.stream(found.stream).device, "dvpp")
        runtime.memory.array(address, len(body), "video packet")[:] = np.frombuffer(body, np.uint8)
        target = runtime.handles.add(StreamDesc(data=address, size=len(body), format=found.entype))
        callback = found.callback
        assert callback is not None

        report = _PacketReport(callback, source, target, address, user_data)
        launch(report, None, True, runtime.stream(found.stream))


__all__ = [name for name in dir() if name.startswith(("vdec_", "venc_"))]
