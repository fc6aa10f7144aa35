from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ModelTaskDef(_message.Message):
    __slots__ = ("version", "attr", "task", "memory_size", "stream_num", "event_num", "weight_size", "op", "base_addr", "weight_addr", "batch_num")
    class AttrEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ATTR_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    MEMORY_SIZE_FIELD_NUMBER: _ClassVar[int]
    STREAM_NUM_FIELD_NUMBER: _ClassVar[int]
    EVENT_NUM_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_SIZE_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    BASE_ADDR_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_ADDR_FIELD_NUMBER: _ClassVar[int]
    BATCH_NUM_FIELD_NUMBER: _ClassVar[int]
    version: str
    attr: _containers.ScalarMap[str, str]
    task: _containers.RepeatedCompositeFieldContainer[TaskDef]
    memory_size: int
    stream_num: int
    event_num: int
    weight_size: int
    op: _containers.RepeatedScalarFieldContainer[bytes]
    base_addr: int
    weight_addr: int
    batch_num: int
    def __init__(self, version: _Optional[str] = ..., attr: _Optional[_Mapping[str, str]] = ..., task: _Optional[_Iterable[_Union[TaskDef, _Mapping]]] = ..., memory_size: _Optional[int] = ..., stream_num: _Optional[int] = ..., event_num: _Optional[int] = ..., weight_size: _Optional[int] = ..., op: _Optional[_Iterable[bytes]] = ..., base_addr: _Optional[int] = ..., weight_addr: _Optional[int] = ..., batch_num: _Optional[int] = ...) -> None: ...

class TaskDef(_message.Message):
    __slots__ = ("id", "type", "stream_id", "event_id", "notify_id", "sqe_num", "kernel")
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_ID_FIELD_NUMBER: _ClassVar[int]
    SQE_NUM_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    id: int
    type: int
    stream_id: int
    event_id: int
    notify_id: int
    sqe_num: int
    kernel: KernelDef
    def __init__(self, id: _Optional[int] = ..., type: _Optional[int] = ..., stream_id: _Optional[int] = ..., event_id: _Optional[int] = ..., notify_id: _Optional[int] = ..., sqe_num: _Optional[int] = ..., kernel: _Optional[_Union[KernelDef, _Mapping]] = ...) -> None: ...

class KernelDef(_message.Message):
    __slots__ = ("context", "stub_func", "block_dim", "args_size", "args", "kernel_name", "kernel_ext_info", "args_info", "schedule_mode")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    STUB_FUNC_FIELD_NUMBER: _ClassVar[int]
    BLOCK_DIM_FIELD_NUMBER: _ClassVar[int]
    ARGS_SIZE_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    KERNEL_NAME_FIELD_NUMBER: _ClassVar[int]
    KERNEL_EXT_INFO_FIELD_NUMBER: _ClassVar[int]
    ARGS_INFO_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_MODE_FIELD_NUMBER: _ClassVar[int]
    context: KernelContext
    stub_func: str
    block_dim: int
    args_size: int
    args: bytes
    kernel_name: str
    kernel_ext_info: bytes
    args_info: bytes
    schedule_mode: int
    def __init__(self, context: _Optional[_Union[KernelContext, _Mapping]] = ..., stub_func: _Optional[str] = ..., block_dim: _Optional[int] = ..., args_size: _Optional[int] = ..., args: _Optional[bytes] = ..., kernel_name: _Optional[str] = ..., kernel_ext_info: _Optional[bytes] = ..., args_info: _Optional[bytes] = ..., schedule_mode: _Optional[int] = ...) -> None: ...

class KernelContext(_message.Message):
    __slots__ = ("kernel_type", "op_id", "op_index", "args_offset", "args_count", "args_format")
    KERNEL_TYPE_FIELD_NUMBER: _ClassVar[int]
    OP_ID_FIELD_NUMBER: _ClassVar[int]
    OP_INDEX_FIELD_NUMBER: _ClassVar[int]
    ARGS_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ARGS_COUNT_FIELD_NUMBER: _ClassVar[int]
    ARGS_FORMAT_FIELD_NUMBER: _ClassVar[int]
    kernel_type: int
    op_id: int
    op_index: int
    args_offset: bytes
    args_count: int
    args_format: str
    def __init__(self, kernel_type: _Optional[int] = ..., op_id: _Optional[int] = ..., op_index: _Optional[int] = ..., args_offset: _Optional[bytes] = ..., args_count: _Optional[int] = ..., args_format: _Optional[str] = ...) -> None: ...
