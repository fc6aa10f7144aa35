"""PyTorch programs: exported by PyTorch to ONNX and converted, read from ``.pt2``, or handed over as modules."""

from __future__ import annotations

import io
import json
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import asc_devkit
from asc_devkit import atc, npu
from asc_devkit.atc.options import from_flags
from asc_devkit.errors import AscError
from asc_devkit.frontends.torch.archive import safe_copy
from tests.cli.shell import asc
from tests.cli.shell import atc as atc_command

CHIP = "Ascend910B2"


class Residual(torch.nn.Module):
    """A small image classifier: strided convolutions, depthwise ones, a residual, squeeze-and-excitation, hard-swish."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, 2, 1), torch.nn.BatchNorm2d(16), torch.nn.Hardswish())
        self.depthwise = torch.nn.Sequential(
            torch.nn.Conv2d(16, 16, 3, 1, 1, groups=16), torch.nn.BatchNorm2d(16), torch.nn.ReLU6()
        )
        self.squeeze = torch.nn.Sequential(
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Conv2d(16, 4, 1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(4, 16, 1),
            torch.nn.Sigmoid(),
        )
        self.point = torch.nn.Conv2d(16, 16, 1, bias=False)
        self.head = torch.nn.Linear(16, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = self.depthwise(x)
        x = x + self.point(y * self.squeeze(y))
        x = torch.nn.functional.max_pool2d(x, 3, 2, 1)
        return torch.softmax(self.head(torch.flatten(torch.nn.functional.adaptive_avg_pool2d(x, 1), 1)), 1)


class Encoder(torch.nn.Module):
    """A transformer encoder with positions, GELU and layer normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(50, 32)
        self.positions = torch.nn.Parameter(torch.randn(1, 12, 32) * 0.1)
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, 0.1, "gelu", batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(32, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.table(ids) + self.positions)[:, 0])


class Recurrent(torch.nn.Module):
    """Two bidirectional LSTM layers and a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(6, 8, 2, batch_first=True, bidirectional=True)
        self.gru = torch.nn.GRU(16, 5, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gru(self.lstm(x)[0])[0]


NETS: dict[str, tuple[type[torch.nn.Module], Callable[[], torch.Tensor]]] = {
    "residual": (Residual, lambda: torch.randn(2, 3, 32, 32)),
    "encoder": (Encoder, lambda: torch.randint(0, 50, (2, 12))),
    "recurrent": (Recurrent, lambda: torch.randn(2, 9, 6)),
}


def _net(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(5)
    kind, example = NETS[name]
    module = kind()
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(part.running_mean, -0.5, 0.5)
            torch.nn.init.uniform_(part.running_var, 0.5, 1.5)
    return module.eval(), example()


def _same(om: Path, module: torch.nn.Module, x: torch.Tensor, tolerance: float = 2e-5) -> None:
    session = npu.load(om)
    (got,) = session.run({session.inputs[0].name: x.numpy()}).values()
    with torch.no_grad():
        np.testing.assert_allclose(got, module(x).numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.seed("C12")
@pytest.mark.parametrize(
    ("name", "opset"),
    [("residual", 11), ("recurrent", 11), ("encoder", 14), *((name, opset) for opset in (18, 23) for name in NETS)],
)  # PyTorch itself cannot write attention below opset 14
@pytest.mark.filterwarnings("ignore")
def test_what_torch_exports_is_converted_and_computes_what_torch_computes(
    name: str, opset: int, tmp_path: Path
) -> None:
    module, x = _net(name)
    dynamo = opset >= 18  # the older exporter writes the older opsets
    torch.onnx.export(module, (x,), str(tmp_path / "m.onnx"), dynamo=dynamo, opset_version=opset, verbose=False)
    flags = {
        "model": str(tmp_path / "m.onnx"), "framework": "5", "output": str(tmp_path / "m"), "soc_version": CHIP,
        "precision_mode": "must_keep_origin_dtype",
    }  # fmt: skip
    atc.compile(from_flags(flags))
    _same(tmp_path / "m.om", module, x)


@pytest.mark.seed("C12")
def test_an_exported_program_is_converted_by_the_command(tmp_path: Path) -> None:
    module, x = _net("residual")
    batch = torch.export.Dim("batch", min=1, max=64)
    torch.export.save(torch.export.export(module, (x,), dynamic_shapes=({0: batch},)), tmp_path / "m.pt2")
    done = asc(
        "convert", str(tmp_path / "m.pt2"), "--soc", CHIP, "--precision-mode", "must_keep_origin_dtype",
        "--input-shape", "x:2,3,32,32",
    )  # fmt: skip
    assert done.code == 0, done.err
    _same(tmp_path / "m.om", module, x)
    done = asc("convert", str(tmp_path / "m.pt2"), "--soc", CHIP)
    assert done.code == 2 and '--input_shape="x:1,3,32,32"' in done.err


@pytest.mark.parametrize("name", NETS)
@pytest.mark.filterwarnings("ignore")
def test_a_module_is_converted_from_python(name: str, tmp_path: Path) -> None:
    module, x = _net(name)
    module.train()
    made = asc_devkit.convert_module(
        module, (x,), tmp_path / "sub" / "m", CHIP, precision_mode="must_keep_origin_dtype"
    )
    assert module.training
    assert (tmp_path / "sub" / "m.onnx").is_file()
    _same(made.om_path, module.eval(), x)


@pytest.mark.filterwarnings("ignore")
def test_a_torchscript_module_is_converted_from_python(tmp_path: Path) -> None:
    module, x = _net("residual")
    made = asc_devkit.convert_module(
        torch.jit.trace(module, x),
        [x],
        tmp_path / "m",
        CHIP,
        input_names=["pixels"],
        precision_mode="must_keep_origin_dtype",
    )
    assert [i.name for i in made.inputs] == ["pixels"]
    _same(made.om_path, module, x)


def test_convert_module_refuses_options_that_do_not_exist(tmp_path: Path) -> None:
    module, x = _net("recurrent")
    with pytest.raises(AscError, match="presicion_mode"):
        asc_devkit.convert_module(module, (x,), tmp_path / "m", presicion_mode="force_fp16")


@pytest.mark.filterwarnings("ignore")
def test_torchscript_and_checkpoint_files_are_refused_with_what_to_do(tmp_path: Path) -> None:
    module, x = _net("residual")
    torch.jit.trace(module, x).save(str(tmp_path / "script.pt"))
    torch.save(module.state_dict(), tmp_path / "state.pth")
    for file, words in {
        "script.pt": ("TorchScript", "convert_module"),
        "state.pth": ("checkpoint", "torch.onnx.export"),
    }.items():
        done = atc_command(
            f"--model={tmp_path / file}", "--framework=5", f"--output={tmp_path / 'm'}", "--soc_version=Ascend310P3"
        )
        assert done.code == 2
        for word in words:
            assert word in done.out + done.err


# --- archives that would run code --------------------------------------------------------------------------------------


class Bomb:
    """Unpickling this runs a command."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("import pathlib; pathlib.Path('bomb-went-off').touch()",))


def _rewritten(source: Path, target: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = change(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    return target


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt2") / "good.pt2"
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    torch.export.save(torch.export.export(module, (torch.randn(2, 4),)), path)
    return path


def _edit(edit: Callable[[dict[str, Any]], None], part: str) -> Callable[[str, bytes], bytes]:
    def change(name: str, data: bytes) -> bytes:
        if not name.endswith(part):
            return data
        content = json.loads(data)
        edit(content)
        return json.dumps(content).encode()

    return change


def _call_os(content: dict[str, Any]) -> None:
    content["graph_module"]["graph"]["nodes"][0]["target"] = "torch.serialization.os.system"


def _evil_size(content: dict[str, Any]) -> None:
    content["range_constraints"] = {"__import__('os').system('true')": {"min_val": 0, "max_val": 9}}


def _pickled_weight(content: dict[str, Any]) -> None:
    next(iter(content["config"].values()))["use_pickle"] = True


def _opaque(content: dict[str, Any]) -> None:
    content["config"]["x"] = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}


def _huge(content: dict[str, Any]) -> None:
    next(iter(content["config"].values()))["tensor_meta"]["sizes"] = [{"as_int": 1 << 40}]


@pytest.mark.parametrize(
    ("edit", "part", "word"),
    [
        (_call_os, "models/model.json", "os.system"),
        (_evil_size, "models/model.json", "__import__"),
        (_pickled_weight, "weights_config.json", "pickle"),
        (_opaque, "constants_config.json", "pickle"),
        (_huge, "weights_config.json", "too few bytes"),
    ],
)
def test_an_archive_that_would_run_code_is_refused_before_torch_sees_it(
    edit: Callable[[dict[str, Any]], None], part: str, word: str, program: Path, tmp_path: Path
) -> None:
    bad = _rewritten(program, tmp_path / "bad.pt2", _edit(edit, part))
    with pytest.raises(AscError, match=word):
        safe_copy(bad)


def test_pickles_beside_the_program_are_never_opened(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bomb = pickle.dumps(Bomb())
    bad = _rewritten(program, tmp_path / "bad.pt2", lambda n, d: bomb if "sample_inputs" in n else d)
    flags = {"model": str(bad), "framework": "5", "output": str(tmp_path / "m"), "soc_version": CHIP}
    atc.compile(from_flags(flags))
    assert not (tmp_path / "bomb-went-off").exists()
    pickle.loads(bomb)  # the bomb works
    assert (tmp_path / "bomb-went-off").exists()


def test_a_formula_is_arithmetic_and_nothing_else() -> None:
    from asc_devkit.frontends.torch.archive import _is_formula

    for good in (
        "s77",
        "Symbol('s77', positive=True, integer=True)",
        "2*s0 + 1",
        "Max(1, s0//2)",
        "Mod(Symbol('s1'), Integer(2))",
    ):
        assert _is_formula(good), good
    for bad in (
        "__import__('os')", "().__class__", "s0.args", "[x for x in (1,)]", "lambda: 1", "Symbol('a b')", "f'{1}'",
        "s0 if 1 else 2", "eval('1')", "2**10**10", "9**99999999", "", "(" * 5000,
    ):  # fmt: skip
        assert not _is_formula(bad), bad


@pytest.mark.parametrize("size", [0, 100, 2000])
def test_a_cut_archive_is_refused(size: int, program: Path, tmp_path: Path) -> None:
    bad = tmp_path / "cut.pt2"
    bad.write_bytes(program.read_bytes()[:size])
    flags = {"model": str(bad), "framework": "5", "output": str(tmp_path / "m"), "soc_version": CHIP}
    with pytest.raises(AscError):
        atc.compile(from_flags(flags))


@pytest.mark.provokes("ASC1301")
def test_without_pytorch_the_extra_is_named(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    flags = {"model": str(program), "framework": "5", "output": str(tmp_path / "m"), "soc_version": CHIP}
    with pytest.raises(AscError) as caught:
        atc.compile(from_flags(flags))
    (problem,) = caught.value.problems
    assert (problem.code, caught.value.exit_code) == ("ASC1301", 2)
    assert "asc-devkit[torch]" in problem.fix


def test_the_copy_keeps_the_weights(program: Path) -> None:
    with zipfile.ZipFile(program) as old, zipfile.ZipFile(io.BytesIO(safe_copy(program).getvalue())) as new:
        names = [n for n in old.namelist() if "/weights/weight_" in n]
        assert names and all(old.read(n) == new.read(n) for n in names)
