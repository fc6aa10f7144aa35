"""``acl.prof``: profiling from inside a program, in the vendor's functions and in the dictionary form of articles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asc_devkit.compat.acl.calls import call
from asc_devkit.profiling.aclprof.control import control
from asc_devkit.profiling.aclprof.stamps import stamps
from asc_devkit.profiling.aclprof.subscription import count, info, subscriptions

__all__ = [
    *(
        "create_config",
        "create_stamp",
        "create_step_info",
        "create_subscribe_config",
        "destroy_config",
        "destroy_stamp",
    ),
    *("destroy_step_info", "destroy_subscribe_config", "finalize", "get_op_duration", "get_op_end", "get_op_name"),
    *("get_op_num", "get_op_start", "get_op_type", "get_step_timestamp", "init", "mark", "mark_ex", "model_subscribe"),
    *("model_un_subscribe", "pop", "push", "range_start", "range_stop", "set_config", "set_stamp_trace_message"),
    *("start", "stop"),
]


@call("aclprofInit")
def init(prof_result_path: str, /) -> None:
    """Choose the folder that receives the PROF trees."""
    control.init(prof_result_path)


@call("aclprofFinalize")
def finalize() -> None:
    control.finalize()


@call("aclprofCreateConfig", 0, bare=True)
def create_config(device_id_list: list[int], aicore_metrics: int, aicore_events: int, data_type_config: int, /) -> int:
    """Handle of a configuration; 0 when the arguments make none."""
    return control.create_config(device_id_list, aicore_metrics, aicore_events, data_type_config)


@call("aclprofDestroyConfig")
def destroy_config(profiler_config: int, /) -> None:
    control.destroy_config(profiler_config)


@call("aclprofSetConfig")
def set_config(config_type: int, config: str, /) -> None:
    control.set_config(config_type, config)


@call("aclprofStart")
def start(profiler_config: int | Mapping[str, Any], /) -> None:
    """Start to collect: a handle, or the dictionary of articles (then without ``init``)."""
    control.start(profiler_config)


def stop(profiler_config: int | None = None, /) -> int:
    """Stop to collect and write the tree (no argument: what the dictionary started)."""
    status: Any = _stop(profiler_config)
    return int(status)


@call("aclprofStop")
def _stop(profiler_config: int | None, /) -> None:
    control.stop(profiler_config)


@call("aclprofCreateStamp", 0, bare=True)
def create_stamp() -> int:
    return stamps.create()


@call("aclprofDestroyStamp", bare=True)
def destroy_stamp(stamp: int, /) -> None:
    stamps.destroy(stamp)


@call("aclprofSetStampTraceMessage")
def set_stamp_trace_message(stamp: int, message: str, message_len: int, /) -> None:
    stamps.set_message(stamp, message, message_len)


@call("aclprofMark")
def mark(stamp: int, /) -> None:
    stamps.mark(stamp)


@call("aclprofMarkEx")
def mark_ex(message: str, message_len: int, stream: int, /) -> None:
    stamps.mark_message(message[:message_len])


@call("aclprofPush")
def push(stamp: int, /) -> None:
    stamps.push(stamp)


@call("aclprofPop")
def pop() -> None:
    stamps.pop()


@call("aclprofRangeStart", 0)
def range_start(stamp: int, /) -> int:
    return stamps.range_start(stamp)


@call("aclprofRangeStop")
def range_stop(range_id: int, /) -> None:
    stamps.range_stop(range_id)


@call("aclprofCreateStepInfo", 0, bare=True)
def create_step_info() -> int:
    return stamps.create_step()


@call("aclprofDestroyStepInfo", bare=True)
def destroy_step_info(step_info: int, /) -> None:
    stamps.destroy_step(step_info)


@call("aclprofGetStepTimestamp")
def get_step_timestamp(step_info: int, tag: int, stream: int, /) -> None:
    """Mark the beginning (tag 0) or the end (1) of a step."""
    stamps.step(step_info, tag)


@call("aclprofCreateSubscribeConfig", 0, bare=True)
def create_subscribe_config(time_info_switch: int, aicore_metrics: int, fd: int, /) -> int:
    return subscriptions.create_config(time_info_switch, aicore_metrics, fd)


@call("aclprofDestroySubscribeConfig")
def destroy_subscribe_config(subscribe_config: int, /) -> None:
    subscriptions.destroy_config(subscribe_config)


@call("aclprofModelSubscribe")
def model_subscribe(model_id: int, subscribe_config: int, /) -> None:
    subscriptions.subscribe(model_id, subscribe_config)


@call("aclprofModelUnSubscribe")
def model_un_subscribe(model_id: int, /) -> None:
    subscriptions.unsubscribe(model_id)


@call("aclprofGetOpNum", 0)
def get_op_num(op_info: int, op_info_len: int, /) -> int:
    """Operators in the bytes read from the subscription's descriptor."""
    return count(op_info, op_info_len)


@call("aclprofGetOpType", "")
def get_op_type(op_info: int, op_info_len: int, index: int, op_type_len: int, /) -> str:
    return info(op_info, op_info_len, index).type[:op_type_len]


@call("aclprofGetOpName", "")
def get_op_name(op_info: int, op_info_len: int, index: int, op_name_len: int, /) -> str:
    return info(op_info, op_info_len, index).name[:op_name_len]


@call("aclprofGetOpStart", 0, bare=True)
def get_op_start(op_info: int, op_info_len: int, index: int, /) -> int:
    """Begin in nanoseconds (simulated)."""
    return info(op_info, op_info_len, index).start_ns


@call("aclprofGetOpEnd", 0, bare=True)
def get_op_end(op_info: int, op_info_len: int, index: int, /) -> int:
    return info(op_info, op_info_len, index).end_ns


@call("aclprofGetOpDuration", 0, bare=True)
def get_op_duration(op_info: int, op_info_len: int, index: int, /) -> int:
    found = info(op_info, op_info_len, index)
    return found.end_ns - found.start_ns
