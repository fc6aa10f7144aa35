"""Numbers of the ``acl.prof`` functions (public header acl_prof.h) and what they mean here."""

from __future__ import annotations

from typing import Final

# aclprofAicoreMetrics -> metric group; empty: no counters.
METRICS: Final = {
    0: "ArithmeticUtilization",
    1: "PipeUtilization",
    2: "Memory",
    3: "MemoryL0",
    4: "ResourceConflictRatio",
    5: "MemoryUB",
    6: "L2Cache",
    7: "PipelineExecuteUtilization",
    8: "MemoryAccess",
    0xFF: "",
}
# Bits of data_type_config -> option of msprof that they switch.
SWITCHES: Final = {
    0x0001: "ascendcl",
    0x0008: "aicpu",
    0x0010: "l2",
    0x0020: "hccl",
    0x0080: "msproftx",
    0x0100: "runtime-api",
    0x1000: "task-memory",
}
# aclprofConfigType -> (option that takes the value, option that is switched on by it).
TYPED_SETTINGS: Final = {
    1: ("storage-limit", ""),
    3: ("sys-hardware-mem-freq", "sys-hardware-mem"),
    4: ("llc-profiling", ""),
    5: ("sys-io-sampling-freq", ""),
    6: ("sys-interconnection-freq", ""),
    7: ("dvpp-freq", ""),
    8: ("host-sys", ""),
    9: ("host-sys-usage", ""),
    10: ("host-sys-usage-freq", ""),
    11: ("sys-lp-freq", ""),
    12: ("sys-mem-serviceflow", ""),
    13: ("sys-cpu-freq", ""),
}
STEP_START: Final = 0
STEP_END: Final = 1
MOST_NAME: Final = 257  # ACL_PROF_MAX_OP_NAME_LEN
MOST_TYPE: Final = 65  # ACL_PROF_MAX_OP_TYPE_LEN
