"""``init``, ``create_config``, ``start``, ``stop``, ``finalize``: collections that a program starts itself.

One tree per ``start``. At ``stop`` the raw data are written and exported at once; ``msprof --export=on`` can do so again.
"""

from __future__ import annotations

import atexit
import difflib
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from asc_devkit.errors import AscError
from asc_devkit.npu.device.status import DeviceFault
from asc_devkit.profiling.aclprof.constants import METRICS, SWITCHES, TYPED_SETTINGS
from asc_devkit.profiling.collect import hook, options, session, watch
from asc_devkit.profiling.collect.collector import Collector, Plan

_INVALID: Final = "ACL_ERROR_INVALID_PROFILING_CONFIG"
_FIRST_HANDLE: Final = 0x5000_0000  # not an address: configurations are not memory that a program may look into
DEFAULT_OUTPUT: Final = "./profiling_output"
# Keys of the article's dictionary (and of the "profiler" section of acl.json) -> option of msprof.
_KEYS: Final = {
    "aicore_metrics": "aic-metrics",
    "aic_metrics": "aic-metrics",
    "ascendcl": "ascendcl",
    "runtime_api": "runtime-api",
    "task_time": "task-time",
    "aicpu": "aicpu",
    "l2": "l2",
    "hccl": "hccl",
    "msproftx": "msproftx",
    "storage_limit": "storage-limit",
    "sys_hardware_mem_freq": "sys-hardware-mem-freq",
    "host_sys": "host-sys",
    "aic_mode": "aic-mode",
    "aic_freq": "aic-freq",
}
_OWN_KEYS: Final = ("output", "task", "device_range", "device_list", "switch")
_TASKS: Final = ("model_execute", "training_trace", "task_trace", "op_execute")


@dataclass(frozen=True)
class Config:
    """What ``create_config`` was given: devices, metric group (empty: none), switches by option name."""

    devices: tuple[int, ...]
    settings: Mapping[str, str]


@dataclass
class Control:
    """The state of ``acl.prof`` in this process."""

    output: Path | None = None
    extra: dict[str, str] = field(default_factory=dict)
    configs: dict[int, Config] = field(default_factory=dict)
    running: dict[int, Collector | None] = field(default_factory=dict)
    trees: list[Path] = field(default_factory=list)
    subscribed: Callable[[], bool] = lambda: False
    _handles: Any = field(default_factory=lambda: itertools.count(_FIRST_HANDLE, 16))
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _short: int | None = None

    def init(self, path: str) -> None:
        """Choose the folder that receives the trees. Faults: already initialised, a subscription is open, no right."""
        with self._lock:
            self._no_subscription()
            if self.output is not None:
                raise DeviceFault(
                    "ACL_ERROR_PROF_ALREADY_RUN", "acl.prof.init was called twice.", fix="Finalize first."
                )
            folder = Path(path)
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except (OSError, ValueError) as error:
                raise DeviceFault(
                    "ACL_ERROR_PROFILING_FAILURE",
                    f"The folder {path} cannot be made: {error}.",
                    fix="Choose a folder that can be written.",
                ) from error
            self.output = folder

    def create_config(self, devices: Sequence[int], metrics: int, events: int, switches: int) -> int:
        """A configuration's handle; 0 when the arguments are no configuration (as the C function returns null)."""
        if not devices or any(isinstance(d, bool) or not isinstance(d, int) or d < 0 for d in devices) or events:
            return 0
        settings = {option: "on" if switches & bit else "off" for bit, option in SWITCHES.items()}
        settings["task-time"] = "on" if switches & 0x2 else ("l0" if switches & 0x800 else "off")
        settings["ai-core"] = "off"
        if switches & 0x4:
            if metrics not in METRICS:
                return 0
            if METRICS[metrics]:
                settings |= {"ai-core": "on", "aic-metrics": METRICS[metrics]}
        with self._lock:
            handle = int(next(self._handles))
            self.configs[handle] = Config(tuple(devices), settings)
        return handle

    def destroy_config(self, handle: int) -> None:
        """Forget a configuration. Faults: unknown, or still running."""
        with self._lock:
            self._config(handle)
            if handle in self.running:
                raise DeviceFault("ACL_ERROR_PROF_ALREADY_RUN", "The configuration is in use.", fix="Stop it first.")
            del self.configs[handle]

    def set_config(self, kind: int, value: str) -> None:
        """One of the typed settings (``ACL_PROF_SYS_HARDWARE_MEM_FREQ`` ...), for the collections that start later."""
        found = TYPED_SETTINGS.get(kind)
        if found is None:
            raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"There is no profiling setting {kind}.")
        option, switch = found
        if option:
            self._checked({option: value})
            self.extra[option] = value
        if switch:
            self.extra[switch] = "on"

    def start(self, given: Any) -> None:
        """Start to collect: the handle of a configuration, or the article's dictionary (which needs no ``init``).

        Faults: not initialised, the same devices are being collected already, a setting that cannot be.
        """
        with self._lock:
            if isinstance(given, Mapping):
                given = self._from_dictionary(given)
            elif self.output is None:
                raise DeviceFault("ACL_ERROR_PROF_NOT_RUN", "acl.prof.init was not called.", fix="Call it first.")
            config = self._config(given)
            taken = {d for h in self.running for d in self.configs[h].devices}
            if given in self.running or taken & set(config.devices):
                raise DeviceFault("ACL_ERROR_PROF_ALREADY_RUN", "These devices are being profiled already.")
            self.running[given] = self._begin(config)

    def stop(self, handle: int | None = None) -> Path | None:
        """Stop a configuration (None: the one the dictionary started); its tree, None under ``msprof``."""
        with self._lock:
            wanted = self._short if handle is None else handle
            if wanted is None or wanted not in self.running:
                if wanted is not None:
                    self._config(wanted)
                raise DeviceFault(
                    "ACL_ERROR_PROF_NOT_RUN", "Nothing is being profiled.", fix="Call acl.prof.start first."
                )
            tree = self._end(wanted)
            if wanted == self._short:
                del self.configs[wanted]
                self._short, self.output = None, None
            return tree

    def finalize(self) -> None:
        """End all collections and forget the folder. Fault: not initialised."""
        with self._lock:
            if self.output is None:
                raise DeviceFault("ACL_ERROR_PROF_NOT_RUN", "acl.prof.init was not called.")
            for handle in list(self.running):
                self._end(handle)
            self.output, self._short = None, None
            self.extra.clear()

    def collectors(self) -> list[Collector]:
        """Who is collecting in this process."""
        found = [c for c in self.running.values() if c is not None]
        current = watch.current()
        return found if current is None or current in found else [*found, current]

    # --- inside ------------------------------------------------------------------------------------------------------
    def _begin(self, config: Config) -> Collector | None:
        """Start; None when ``msprof`` collects this whole process anyway."""
        assert self.output is not None
        hook.install()
        if watch.current() is not None and not self.running:
            return None
        plan = session.plan(self.output, {**config.settings, **self.extra})
        collector = Collector(
            Plan(plan.output, plan.settings, command=plan.command, devices=frozenset(config.devices)), always=True
        )
        try:
            collector.start()
        except AscError as error:
            raise DeviceFault(
                "ACL_ERROR_PROFILING_FAILURE", error.problems[0].what, fix=error.problems[0].fix
            ) from error
        hook.listen(collector, on=True)
        if watch.current() is None:
            watch.set_current(collector)
        return collector

    def _end(self, handle: int) -> Path | None:
        collector = self.running.pop(handle)
        if collector is None:
            return None
        hook.listen(collector, on=False)
        if watch.current() is collector:
            watch.set_current(None)
        try:
            tree = collector.stop()
            if tree is None:
                return None
            self.trees.append(tree)
            _export(tree)
        except AscError as error:
            raise DeviceFault(
                "ACL_ERROR_PROFILING_FAILURE", error.problems[0].what, fix=error.problems[0].fix
            ) from error
        return tree

    def _from_dictionary(self, given: Mapping[str, Any]) -> int:
        self._no_subscription()
        if self._short is not None:
            raise DeviceFault(
                "ACL_ERROR_PROF_ALREADY_RUN", "A profile is being collected already.", fix="Stop it first."
            )
        known = (*_OWN_KEYS, *_KEYS)
        unknown = [str(k) for k in given if k not in known]
        if unknown:
            near = difflib.get_close_matches(unknown[0], known, n=1)
            fix = f"Did you mean {near[0]!r}?" if near else f"Keys are {', '.join(known)}."
            raise DeviceFault(_INVALID, f"The profiling configuration has no {', '.join(unknown)}.", fix=fix)
        task = given.get("task", _TASKS[0])
        if task not in _TASKS:
            raise DeviceFault(_INVALID, f"There is no task {task!r}.", fix=f"Tasks are {', '.join(_TASKS)}.")
        settings = {"ai-core": "on", "task-time": "on"}
        settings |= {_KEYS[k]: _switch(v) for k, v in given.items() if k in _KEYS}
        self._checked(settings)
        devices = _devices(given.get("device_range", given.get("device_list", [0])))
        if self.output is None:
            self.init(str(given.get("output", DEFAULT_OUTPUT)))
        self._short = int(next(self._handles))
        self.configs[self._short] = Config(devices, settings)
        return self._short

    def _checked(self, settings: Mapping[str, str]) -> None:
        try:
            options.parse([f"--{name}={value}" for name, value in settings.items()])
        except AscError as error:
            problem = error.problems[0]
            raise DeviceFault(_INVALID, problem.what, problem.cause, problem.fix) from error

    def _config(self, handle: Any) -> Config:
        found = self.configs.get(handle) if isinstance(handle, int) else None
        if found is None:
            raise DeviceFault("ACL_ERROR_INVALID_PARAM", f"{handle!r} is not a profiling configuration.")
        return found

    def _no_subscription(self) -> None:
        if self.subscribed():
            raise DeviceFault(
                "ACL_ERROR_PROF_API_CONFLICT",
                "A model is subscribed; profiles cannot be written meanwhile.",
                fix="Unsubscribe first.",
            )


def _switch(value: Any) -> str:
    """True and False as the option's words."""
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _devices(given: Any) -> tuple[int, ...]:
    """A list of numbers, one number, or a text such as ``0,1`` or ``0-3`` or ``all``."""
    if given == "all":
        return tuple(range(64))
    if isinstance(given, int) and not isinstance(given, bool):
        given = [given]
    if isinstance(given, str):
        parts = [part.partition("-") for part in given.split(",")]
        if all(a.strip().isdecimal() and (not dash or b.strip().isdecimal()) for a, dash, b in parts):
            given = [n for a, dash, b in parts for n in range(int(a), min(int(b or a), 4096) + 1)]
    listed = given if isinstance(given, Sequence) and not isinstance(given, str) else ()
    if listed and all(isinstance(d, int) and not isinstance(d, bool) and d >= 0 for d in listed):
        return tuple(listed)
    raise DeviceFault(_INVALID, f"{given!r} are no devices.", fix="Give a list of device numbers, such as [0].")


def _export(tree: Path) -> None:
    from asc_devkit import profiling

    profiling.export(tree)


control = Control()


def _at_exit() -> None:
    """What still runs when the program ends is written, not exported: exporting may take longer than an exit should."""
    for handle in list(control.running):
        collector = control.running.pop(handle)
        if collector is not None:
            collector.stop()


atexit.register(_at_exit)
