"""``MultiDeviceSession``: one process for each set of inputs, as on several devices."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from asc_devkit.compat.ais_bench.session import OUT_BYTES, CustomSizes, InferSession


class MultiDeviceSession:
    """Loads the model in one new process for each set of inputs, on the device that the set is meant for."""

    def __init__(self, model_path: str, acl_json_path: str | None = None, debug: bool = False, loop: int = 1) -> None:
        self.model_path, self.acl_json_path, self.debug, self.loop = model_path, acl_json_path, debug, loop
        self._times: dict[int, list[float]] = {}

    def infer(
        self,
        devices_feeds: Mapping[int, Sequence[Any]],
        mode: str = "static",
        custom_sizes: CustomSizes = OUT_BYTES,
    ) -> dict[int, list[Any]]:
        """``{device: [outputs, ...]}`` for ``{device: [feeds, ...]}``."""
        return self._everywhere(devices_feeds, "infer", (mode, custom_sizes))

    def infer_pipeline(
        self,
        devices_feeds_list: Mapping[int, Sequence[Any]],
        mode: str = "static",
        custom_sizes: CustomSizes = OUT_BYTES,
    ) -> dict[int, list[Any]]:
        return self._everywhere(devices_feeds_list, "infer_pipeline", (mode, custom_sizes))

    def infer_iteration(
        self,
        device_feeds: Mapping[int, Sequence[Any]],
        in_out_list: Sequence[int] | None = None,
        iteration_times: int = 1,
        mode: str = "static",
        custom_sizes: CustomSizes | None = None,
        mem_copy: bool = True,
    ) -> dict[int, list[Any]]:
        sizes = OUT_BYTES if custom_sizes is None else custom_sizes
        return self._everywhere(device_feeds, "infer_iteration", (in_out_list, iteration_times, mode, sizes, mem_copy))

    def summary(self) -> dict[int, list[float]]:
        """Seconds each process of the last call took, loading included, by device (measured on this computer)."""
        return self._times

    def _everywhere(
        self, work: Mapping[int, Sequence[Any]], method: str, rest: tuple[Any, ...]
    ) -> dict[int, list[Any]]:
        jobs = [(device, feeds) for device, sets in work.items() for feeds in sets]
        found: dict[int, list[Any]] = {device: [] for device in work}
        self._times = {device: [] for device in work}
        if not jobs:
            return found
        setup = (self.model_path, self.acl_json_path, self.debug, self.loop)
        with ProcessPoolExecutor(len(jobs), multiprocessing.get_context("spawn")) as pool:
            waiting = [(device, pool.submit(_run, device, setup, method, feeds, rest)) for device, feeds in jobs]
            for device, future in waiting:
                outputs, seconds = future.result()
                found[device].append(outputs)
                self._times[device].append(seconds)
        return found


def _run(device: int, setup: tuple[Any, ...], method: str, feeds: Any, rest: tuple[Any, ...]) -> tuple[Any, float]:
    """The work of one process."""
    started = time.perf_counter()
    session = InferSession(device, *setup)
    return getattr(session, method)(feeds, *rest), time.perf_counter() - started
