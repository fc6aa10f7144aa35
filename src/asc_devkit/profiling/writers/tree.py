"""The folder of one collection, ``PROF_000001_<time>_<letters>``: names, descriptions of host and devices, raw data places.

Every description says that device times are simulated and by what.
"""

from __future__ import annotations

import json
import os
import platform
import random
import socket
import string
import time
import zlib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from asc_devkit import __version__, files
from asc_devkit.errors import AscError, Problem
from asc_devkit.perf.rates import Rates
from asc_devkit.profiling import pmu
from asc_devkit.profiling.records import Collection, Device

OUTPUT: Final = "mindstudio_profiler_output"
LOG: Final = "mindstudio_profiler_log"
PATTERN: Final = r"^PROF_\d{6}_\d{17}_\w+$"
GENERATOR: Final = f"asc-devkit {__version__}"
ORIGIN: Final = {
    "generator": GENERATOR,
    "simulated": True,
    "origin": "device times and counters are simulated by a performance model; host times are measured",
}


def stamp(ns: int, digits: int = 14) -> str:
    """Local time as the vendor writes it into names: 14 digits to the second, 17 to the millisecond."""
    text = time.strftime("%Y%m%d%H%M%S", time.localtime(ns // 1_000_000_000))
    return text if digits == 14 else f"{text}{ns // 1_000_000 % 1000:03d}"


def new_tree(parent: Path, begin_ns: int) -> Path:
    """Make the folder of a collection; several processes may do so at once. Raises ``CannotWrite``."""
    letters = random.SystemRandom()
    try:
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            name = "".join(letters.choices(string.ascii_uppercase, k=16))
            tree = parent / f"PROF_000001_{stamp(begin_ns, 17)}_{name}"
            try:
                tree.mkdir()
                break
            except FileExistsError:
                continue
        for folder in ("host/data", LOG):
            (tree / folder).mkdir(parents=True)
    except (OSError, ValueError) as error:
        raise files.CannotWrite(parent, error) from error
    return tree


def describe(tree: Path, collection: Collection) -> None:
    """Write info, sample, start and end files of the host and of every device."""
    host = tree / "host"
    _json(host / "info.json", _info(collection, ""))
    _json(host / "sample.json", _sample(collection, "64"))
    _json(host / "start_info", _moment("Begin", collection.begin_ns))
    _json(host / "end_info", _moment("End", collection.end_ns))
    for device in collection.devices:
        folder, number = tree / f"device_{device.number}", device.number
        (folder / "data").mkdir(parents=True, exist_ok=True)
        info = _info(collection, str(number))
        info.update(_device(device))
        text = _json(folder / f"info.json.{number}", info)
        files.write_text(folder / f"info.json.{number}.done", f"filesize:{len(text)}\n")
        _json(folder / "sample.json", _sample(collection, str(number)))
        _json(folder / f"start_info.{number}", _moment("Begin", collection.begin_ns))
        _json(folder / f"end_info.{number}", _moment("End", collection.end_ns))


def trees(path: Path) -> list[Path]:
    """``path`` itself when it is a collection, else the collections in it, by name. Raises ``AscError`` if there is none."""
    if (path / "host").is_dir() and path.name.startswith("PROF_"):
        return [path]
    found = sorted(p for p in path.glob("PROF_*") if (p / "host").is_dir()) if path.is_dir() else []
    if not found:
        raise AscError(
            Problem(
                "ASC6001",
                f"There is no profiling data in {path}.",
                cause="The path is neither a PROF_* folder nor a folder with PROF_* folders in it.",
                fix="Give the folder that was the --output of the collection.",
                nodes=(str(path),),
            )
        )
    return found


def _json(path: Path, content: Mapping[str, Any]) -> str:
    text = json.dumps(content)
    files.write_text(path, text)
    return text


def _moment(which: str, ns: int) -> dict[str, str]:
    micros = ns // 1000
    date = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(micros // 1_000_000))
    return {
        f"collectionDate{which}": f"{date}.{micros % 1_000_000:06d}",
        f"collectionTime{which}": str(micros),
        "clockMonotonicRaw": str(ns),
    }


@lru_cache(maxsize=1)
def _platforms() -> Mapping[str, str]:
    text = resources.files("asc_devkit.profiling").joinpath("data/platforms.json").read_text(encoding="utf-8")
    found: Mapping[str, str] = json.loads(text)["platform_version"]
    return found


def host_facts() -> dict[str, Any]:
    """What the trees say about this computer."""
    name = socket.gethostname()
    return {"name": name, "uid": str(zlib.crc32(name.encode("utf-8", "replace")))}


def _info(collection: Collection, devices: str) -> dict[str, Any]:
    generation = next((pmu.chip(d.soc).soc.generation for d in collection.devices), "")
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "jobInfo": "NA",
        "version": "1.0",
        "OS": f"{platform.system()}-{platform.release()}",
        "hostname": str(collection.host.get("name", "")),
        "hostUid": str(collection.host.get("uid", "")),
        "hwtype": platform.machine(),
        "devices": devices,
        "platform": "",
        "CPU": [{"Id": 0, "Name": "", "Frequency": "", "Logical_CPU_Count": os.cpu_count() or 1, "Type": ""}],
        "DeviceInfo": [],
        "platform_version": _platforms().get(generation, ""),
        "pid": str(collection.process),
        "memoryTotal": pages * size // 1024,
        "cpuNums": os.cpu_count() or 1,
        "netCardNums": 0,
        "rank_id": -1,
        "pid_name": collection.command[:200],
        "asc_devkit": ORIGIN,
    }


def _device(device: Device) -> dict[str, Any]:
    chip: Rates = pmu.chip(device.soc)
    return {
        "DeviceInfo": [
            {
                "id": device.number,
                "soc_version": device.soc,
                "description": f"virtual {device.soc}; simulated, not measured",
                "simulated": True,
                "ctrl_cpu_endian_little": 1,
                "ai_cpu_core_num": chip.soc.ai_cpu_count or 0,
                "ai_core_num": chip.cores,
                "aiv_num": chip.vectors,
                "hwts_frequency": "1000.0",
                "aic_frequency": f"{chip.cube_mhz:g}",
                "aiv_frequency": f"{chip.vector_mhz:g}",
            }
        ],
    }


def _sample(collection: Collection, devices: str) -> dict[str, Any]:
    settings = collection.settings

    def on(name: str, default: str = "off") -> str:
        return "off" if settings.get(name, default) in ("off", "") else "on"

    mode = settings.get("aic-mode", "task-based")
    metrics = settings.get("aic-metrics", "PipeUtilization")
    return {
        "ai_core_profiling": on("ai-core", "on"),
        "ai_core_profiling_mode": mode,
        "ai_core_metrics": metrics,
        "aicore_sampling_interval": round(1000 / float(settings.get("aic-freq", "100"))),
        "aiv_profiling": on("ai-core", "on"),
        "aiv_profiling_mode": mode,
        "aiv_metrics": metrics,
        "app": collection.command.split(" ")[0] if collection.command else "",
        "app_parameters": collection.command.partition(" ")[2],
        "devices": devices,
        "hardware_mem": on("sys-hardware-mem"),
        "host_sys": settings.get("host-sys", ""),
        "host_sys_pid": collection.process,
        "msproftx": on("msproftx"),
        "prof_level": settings.get("task-time", "on"),
        "switches": dict(settings),
        "asc_devkit": ORIGIN,
    }
