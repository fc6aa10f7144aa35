"""``InferSession``: the class that public inference programs are written against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from asc_devkit.compat.ais_bench.model import InferenceSession, SessionOptions, Summary
from asc_devkit.compat.ais_bench.tensors import InferError, MemorySummary, Tensor, TensorDesc, host_array
from asc_devkit.errors import Problem
from asc_devkit.npu.numerics import Array

MODES: Final = ("static", "dymbatch", "dymhw", "dymdims", "dymshape")
OUT_BYTES: Final = 100_000
CustomSizes = int | Sequence[int]


class InferSession:
    """One model on one device of this process.

    ``loop``: executions per call. ``acl_json_path``: configuration whose ``dump`` section names a folder for every
    operator's output. Errors are ``InferError``, a ``RuntimeError``.
    """

    def __init__(
        self,
        device_id: int,
        model_path: str,
        acl_json_path: str | None = None,
        debug: bool = False,
        loop: int = 1,
    ) -> None:
        if not isinstance(loop, int) or loop < 1:
            raise InferError(Problem("ASC4508", f"loop is {loop!r}.", fix="Use 1 or more."))
        self.device_id, self.model_path, self.loop = device_id, model_path, loop
        self.options = SessionOptions(log_level=1 if debug else 2, loop=loop, acl_json_path=acl_json_path or "")
        self._model: InferenceSession | None = InferenceSession(model_path, device_id, self.options)
        self.outputs_names = [desc.name for desc in self.session.get_outputs()]
        self._open = [[i for i, d in enumerate(desc.shape) if d < 0] for desc in self.session.get_inputs()]
        self._setters: dict[str, Callable[[list[Array]], None]] = {
            "static": lambda arrays: None,
            "dymbatch": self._set_batch,
            "dymhw": self._set_image,
            "dymdims": self._set_dims,
            "dymshape": self._set_dims,
        }

    @property
    def session(self) -> InferenceSession:
        """The loaded model. Raises ``InferError`` after ``free_resource``."""
        if self._model is None:
            raise InferError(Problem("ASC4509", "The session's resources were freed.", fix="Make a new InferSession."))
        return self._model

    def get_inputs(self) -> list[TensorDesc]:
        return self.session.get_inputs()

    def get_outputs(self) -> list[TensorDesc]:
        return self.session.get_outputs()

    def infer(
        self, feeds: Sequence[Any], mode: str = "static", custom_sizes: CustomSizes = OUT_BYTES, out_array: bool = True
    ) -> list[Any]:
        """Outputs of one set of inputs: arrays, or ``Tensor`` on the device with ``out_array=False``.

        ``feeds``: arrays, numpy scalars, torch tensors or ``Tensor``, in the order of ``get_inputs()``. ``mode`` says
        what of their shapes chooses the gear; ``custom_sizes`` (``dymshape`` only) are bytes reserved for outputs.
        """
        model = self.session
        if mode != "static":
            self._prepare(feeds, mode, custom_sizes)
        found = model.execute(model.feed(feeds)).values()
        if not out_array:
            return [Tensor.on_device(array, self.device_id) for array in found]
        MemorySummary.d2h.note(0.0)  # results are in host memory already
        return list(found)

    def infer_pipeline(
        self, feeds_list: Sequence[Sequence[Any]], mode: str = "static", custom_sizes: CustomSizes = OUT_BYTES
    ) -> list[list[Array]]:
        """Outputs of each set of inputs. On the device copies and computation overlap; here nothing is copied."""
        return [self.infer(feeds, mode, custom_sizes) for feeds in feeds_list]

    def infer_iteration(
        self,
        feeds: Sequence[Any],
        in_out_list: Sequence[int] | None = None,
        iteration_times: int = 1,
        mode: str = "static",
        custom_sizes: CustomSizes = OUT_BYTES,
        mem_copy: bool = True,
    ) -> list[Array]:
        """Run ``iteration_times`` times; input ``i`` of the next run is output ``in_out_list[i]`` of the last (-1: the
        input given)."""
        given = list(feeds)
        links = [-1] * len(given) if in_out_list is None else list(in_out_list)
        outputs = len(self.outputs_names)
        if len(links) != len(given) or any(not -1 <= i < outputs for i in links):
            raise InferError(
                Problem(
                    "ASC4510",
                    f"in_out_list is {links} for {len(given)} inputs and {outputs} outputs.",
                    fix="Give one number for each input: an output's position, or -1 to keep the input.",
                )
            )
        if iteration_times < 1:
            raise InferError(Problem("ASC4508", f"iteration_times is {iteration_times}.", fix="Use 1 or more."))
        found: list[Array] = []
        for _ in range(iteration_times):
            found = self.infer(given, mode, custom_sizes)
            given = [old if link < 0 else found[link] for old, link in zip(given, links, strict=True)]
        return found

    def run(self, feeds: Sequence[Any], out_array: bool = False) -> list[Any]:
        """Outputs on the device for inputs that fit the shape that is set; ``out_array``: as arrays."""
        outputs = self.session.run(self.outputs_names, feeds)
        if not out_array:
            return list(outputs)
        self.convert_tensors_to_host(outputs)
        return self.convert_tensors_to_arrays(outputs)

    def create_tensor_from_arrays_to_device(self, arrays: Any) -> Tensor:
        tensor = Tensor(arrays)
        tensor.to_device(self.device_id)
        return tensor

    def create_tensor_from_fileslist(self, desc: TensorDesc, files: Sequence[str]) -> Tensor:
        return self.session.create_tensor_from_fileslist(desc, files)

    def convert_tensors_to_host(self, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            tensor.to_host()

    def convert_tensors_to_arrays(self, tensors: Sequence[Tensor]) -> list[Array]:
        return [np.asarray(tensor) for tensor in tensors]

    def set_staticbatch(self) -> None:
        self.session.set_staticbatch()

    def set_dynamic_batchsize(self, dym_batch: int) -> None:
        self.session.set_dynamic_batchsize(int(dym_batch))

    def set_dynamic_hw(self, w: int, h: int) -> None:
        """The two open axes in their order; the names are the vendor's, its programs pass height first."""
        self.session.set_dynamic_hw(int(w), int(h))

    def set_dynamic_dims(self, dym_dims: str) -> None:
        self.session.set_dynamic_dims(dym_dims)

    def set_dynamic_shape(self, dym_shape: str) -> None:
        self.session.set_dynamic_shape(dym_shape)

    def set_custom_outsize(self, custom_sizes: Sequence[int]) -> None:
        self.session.set_custom_outsize(custom_sizes)

    def set_loop_count(self, loop: int) -> None:
        self.options.loop = self.loop = max(int(loop), 1)

    def get_dym_aipp_input_exist(self) -> bool:
        """Whether an input takes its preprocessing at run time; models made here never do."""
        return False

    def sumary(self) -> Summary:
        """``exec_time_list``: milliseconds of every execution, measured on this CPU (not NPU time)."""
        return self.session.sumary()

    summary = sumary

    def reset_sumaryinfo(self) -> None:
        self.session.reset_sumaryinfo()

    reset_summaryinfo = reset_sumaryinfo

    def free_resource(self) -> None:
        """Give the model's memory back; the session is unusable afterwards."""
        self._model = None

    def finalize(self) -> None:
        self.free_resource()

    def _prepare(self, feeds: Sequence[Any], mode: str, custom_sizes: CustomSizes) -> None:
        if mode not in MODES:
            raise InferError(Problem("ASC4511", f"Unknown mode {mode!r}.", fix=f"Use one of {', '.join(MODES)}."))
        arrays = [host_array(feed) for feed in feeds]
        if len(arrays) == len(self._open):  # another count is refused where all is checked
            self._setters[mode](arrays)
        sizes = []
        if mode == "dymshape":
            count = len(self.outputs_names)
            sizes = [custom_sizes] * count if isinstance(custom_sizes, int) else list(custom_sizes)
            if len(sizes) != count:
                raise InferError(
                    Problem("ASC4503", f"{len(sizes)} custom_sizes for {count} outputs.", fix="Give one for each.")
                )
        self.session.set_custom_outsize(sizes)

    def _set_batch(self, arrays: list[Array]) -> None:
        for axes, array in zip(self._open, arrays, strict=True):
            if axes and array.ndim > axes[0]:
                self.session.set_dynamic_batchsize(array.shape[axes[0]])
                return
        self._set_dims(arrays)

    def _set_image(self, arrays: list[Array]) -> None:
        for axes, array in zip(self._open, arrays, strict=True):
            if len(axes) == 2 and array.ndim > axes[1]:
                self.session.set_dynamic_hw(array.shape[axes[0]], array.shape[axes[1]])
                return
        self._set_dims(arrays)

    def _set_dims(self, arrays: list[Array]) -> None:
        named = zip(self.session.session.inputs, arrays, strict=True)
        self.session.set_dynamic_dims(";".join(f"{t.name}:{','.join(map(str, a.shape))}" for t, a in named if a.ndim))
