"""Dumping operator outputs, as the ``dump`` section of a configuration asks."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from asc_devkit.compat.acl.calls import call
from asc_devkit.npu.device import DeviceFault

if TYPE_CHECKING:
    from asc_devkit.compat.acl.mdl.model import Model

__all__ = ["finalize_dump", "init_dump", "set_dump"]
MAX_CONFIG: Final = 10 << 20
_BAD: Final = "ACL_ERROR_INVALID_DUMP_CONFIG"


class _State:
    ready = False
    config: dict[str, Any] | None = None
    started = ""


def read_config(path: str) -> dict[str, Any]:
    """A configuration file. Raises ``DeviceFault`` when it is missing, too large, or no JSON object."""
    target = Path(path)
    try:
        if target.stat().st_size > MAX_CONFIG:
            raise DeviceFault("ACL_ERROR_INVALID_FILE_SIZE", f"{path} is larger than {MAX_CONFIG} bytes.")
        text = target.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise DeviceFault("ACL_ERROR_INVALID_FILE", f"{path} cannot be read: {error}.") from error
    try:
        given = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise DeviceFault("ACL_ERROR_PARSE_FILE", f"{path} is no JSON: {error}.") from error
    if not isinstance(given, dict):
        raise DeviceFault("ACL_ERROR_PARSE_FILE", f"{path} holds no JSON object.")
    return given


def use(section: Any) -> None:
    """Dump from now on as ``section`` says (None: not at all). Raises ``DeviceFault`` for settings that cannot be met."""
    if section is None:
        _State.config = None
        return
    if not isinstance(section, dict):
        raise DeviceFault(_BAD, "The dump section is no object.")
    if section.get("dump_switch") == "off" and "dump_list" not in section:
        _State.config = None
        return
    folder = section.get("dump_path")
    if not isinstance(folder, str) or not folder:
        raise DeviceFault(_BAD, "dump_path is missing.", fix="Name an existing folder.")
    if not Path(folder).is_dir():
        raise DeviceFault(_BAD, f"The folder dump_path ({folder}) does not exist.")
    mode = section.get("dump_mode", "output")
    if mode not in ("input", "output", "all"):
        raise DeviceFault(_BAD, f"dump_mode {mode!r} is unknown.", fix="Use input, output or all.")
    listed = section.get("dump_list", [])
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise DeviceFault(_BAD, "dump_list is no list of objects.")
    _State.config = section
    _State.started = time.strftime("%Y%m%d%H%M%S")


def stop() -> None:
    """No dumping any more."""
    _State.ready, _State.config = False, None


def dump_folder(model: Model) -> Path | None:
    """Where this execution of ``model`` is dumped; None when it is not."""
    config = _State.config
    if config is None:
        return None
    names = [item.get("model_name") for item in config.get("dump_list", []) if item.get("model_name")]
    own = Path(model.name).stem
    if names and own not in names and model.file.header.name not in names:
        return None
    return Path(config["dump_path"], _State.started, str(model.device), own, str(model.number), str(model.count()))


@call("aclmdlInitDump")
def init_dump() -> None:
    """Before set_dump."""
    if _State.ready:
        raise DeviceFault("ACL_ERROR_DUMP_ALREADY_RUN", "Dumping is initialised already.")
    _State.ready = True


@call("aclmdlSetDump")
def set_dump(dump_cfg_path: str, /) -> None:
    """Dump as the ``dump`` section of this file says."""
    if not _State.ready:
        raise DeviceFault("ACL_ERROR_DUMP_NOT_RUN", "acl.mdl.init_dump was not called.")
    use(read_config(dump_cfg_path).get("dump"))


@call("aclmdlFinalizeDump")
def finalize_dump() -> None:
    if not _State.ready:
        raise DeviceFault("ACL_ERROR_DUMP_NOT_RUN", "acl.mdl.init_dump was not called.")
    stop()
