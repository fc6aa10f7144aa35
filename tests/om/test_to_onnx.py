"""ONNX models rebuilt from offline models, and what `asc om explain` tells."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from asc_devkit import atc, npu, om
from asc_devkit.atc.options import from_flags
from asc_devkit.errors import AscError
from asc_devkit.om.to_onnx import rebuild
from asc_devkit.om.vendor.guesses import Guess
from tests.cli.shell import asc, onnx_cnn
from tests.models import example_inputs, model_path

REAL = ("ppocr_cls", "open_nsfw", "minilm")


def compiled(model: Path, folder: Path, **flags: str) -> Path:
    given = {"model": str(model), "framework": "5", "output": str(folder / "m"), "soc_version": "Ascend910B2", **flags}
    return atc.compile(from_flags(given)).om_path


def run(proto: onnx.ModelProto, feeds: list[np.ndarray]) -> list[np.ndarray]:
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip((i.name for i in session.get_inputs()), feeds, strict=True)))


@pytest.mark.parametrize("mode", ["must_keep_origin_dtype", "force_fp16"])
def test_own_models_come_back_exactly(mode: str, tmp_path: Path) -> None:
    onnx_cnn(tmp_path / "m.onnx", "x")
    path = compiled(tmp_path / "m.onnx", tmp_path, precision_mode=mode, input_shape="x:2,3,32,32")
    made = rebuild(om.read(path), exact=True)
    assert not made.guesses
    onnx.checker.check_model(made.proto(), full_check=True)
    session = npu.load(path, threads=1, cache=False)
    x = np.random.default_rng(0).standard_normal((2, 3, 32, 32)).astype(np.float32)
    (wanted,) = session.run({session.inputs[0].name: x.astype(session.inputs[0].dtype)}).values()
    (found,) = run(made.proto(), [x])
    if mode == "must_keep_origin_dtype":
        assert np.abs(found - wanted).max() <= 1e-6
    assert np.abs(found - wanted.astype(np.float32)).max() < 2e-3
    again = compiled_again(made.proto(), tmp_path, mode)
    kinds = [sorted(n.op_type for n in file.to_ir().graph if n.op_type != "Cast") for file in (again, om.read(path))]
    assert [k for k in kinds[0] if k != "TransData"] == [k for k in kinds[1] if k != "TransData"]


def compiled_again(proto: onnx.ModelProto, folder: Path, mode: str) -> om.OmFile:
    """The rebuilt model converted once more."""
    onnx.save(proto, folder / "again.onnx")
    (folder / "again").mkdir(exist_ok=True)
    return om.read(compiled(folder / "again.onnx", folder / "again", precision_mode=mode))


@pytest.mark.parametrize("key", REAL)
def test_real_models_come_back_with_the_results_of_the_file(key: str, tmp_path: Path) -> None:
    feeds = example_inputs(key)
    shapes = ";".join(f"{name}:{','.join(map(str, a.shape))}" for name, a in feeds.items())
    flags = {"precision_mode": "must_keep_origin_dtype", "input_shape": shapes}
    path = compiled(model_path(key), tmp_path, **flags)
    made = rebuild(om.read(path), exact=True)
    session = npu.load(path, threads=1, cache=False)
    wanted = list(session.run({i.name: feeds[i.name] for i in session.inputs}).values())
    found = run(made.proto(), [feeds[i.name] for i in session.inputs])
    worst = max(
        float(np.linalg.norm(a.astype(np.float64) - b) / max(np.linalg.norm(b.astype(np.float64)), 1e-30))
        for a, b in zip(found, wanted, strict=True)
    )
    print(f"{key}: {len(made.proto().graph.node)} nodes, relative distance {worst:.2e}")
    assert worst < 1e-5


def test_the_commands_print_and_write(tmp_path: Path) -> None:
    onnx_cnn(tmp_path / "m.onnx", "x")
    path = compiled(tmp_path / "m.onnx", tmp_path, input_shape="x:1,3,32,32")
    done = asc("om", "to-onnx", str(path), "-o", str(tmp_path / "back.onnx"), "--exact", "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert facts["exact"] and facts["nodes"] == len(onnx.load(tmp_path / "back.onnx").graph.node)
    explained = asc("om", "explain", str(path), "--json")
    facts = json.loads(explained.out)
    assert facts["schema"] == "asc-devkit/om-explain/1" and facts["soc_version"] == "Ascend910B2"
    assert any("Conv2D" in row["type"] for row in facts["operators"])
    assert [row["members"] for row in facts["fused"]] == [["conv_a", "bn_a", "relu_a"], ["conv_b", "relu_b"]]
    assert "fused operators" in asc("om", "explain", str(path)).out
    (tmp_path / "cut.om").write_bytes(path.read_bytes()[:4000])
    broken = asc("om", "to-onnx", str(tmp_path / "cut.om"), "-o", str(tmp_path / "n.onnx"))
    assert broken.code == 2 and "Traceback" not in broken.err and not (tmp_path / "n.onnx").exists()
    missing = asc("om", "to-onnx", str(path), "-o", str(tmp_path / "g.onnx"), "--gear", "3")
    assert missing.code == 2 and "ASC4013" in missing.err


@pytest.mark.provokes("ASC2002")
def test_exact_refuses_what_rests_on_guesses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx_cnn(tmp_path / "m.onnx", "x")
    file = om.read(compiled(tmp_path / "m.onnx", tmp_path, input_shape="x:1,3,32,32"))
    monkeypatch.setattr(om.OmFile, "guesses", lambda self, gear=None: [Guess("conv_a", "epsilon is 1e-05", "usual")])
    with pytest.raises(AscError, match=r"ASC2002.*conv_a") as raised:
        rebuild(file, exact=True)
    assert raised.value.exit_code == 1
    proto = rebuild(file).proto()
    assert "epsilon is 1e-05" in next(p.value for p in proto.metadata_props if "guesses" in p.key)


def test_an_offline_model_is_converted_again_for_another_chip(tmp_path: Path) -> None:
    onnx_cnn(tmp_path / "m.onnx", "x")
    first = compiled(tmp_path / "m.onnx", tmp_path, input_shape="x:1,3,32,32", precision_mode="must_keep_origin_dtype")
    done = asc("convert", str(first), "--soc", "Ascend310P3", "-o", str(tmp_path / "again"), "--json")
    assert done.code == 0, done.err
    second = tmp_path / "again.om"
    assert om.read(second).attrs["soc_version"] == "Ascend310P3"
    x = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)
    found = [next(iter(npu.load(p, threads=1, cache=False).run({"x": x}).values())) for p in (first, second)]
    assert np.abs(found[0].astype(np.float32) - found[1].astype(np.float32)).max() < 2e-3
    (tmp_path / "cut.om").write_bytes(first.read_bytes()[:5000])
    broken = asc("convert", str(tmp_path / "cut.om"), "--soc", "Ascend310P3")
    assert broken.code == 2 and "Traceback" not in broken.err
