"""Every form in which public pages and scripts spell an `atc` command is read; real mistakes are refused with what to write.

scripts/option_corpus.py does the same with a checkout of ModelZoo-PyTorch; the commands here are our own.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from asc_devkit.atc.command_line import parse
from asc_devkit.atc.options import from_flags

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "option_corpus.py"


@pytest.fixture(scope="module")
def corpus() -> ModuleType:
    spec = importlib.util.spec_from_file_location("option_corpus", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["option_corpus"] = module
    spec.loader.exec_module(module)
    return module


REST = "--framework=5 --output=out --soc_version=Ascend310P3"
SHELL = {
    "equals": f"atc --model=a.onnx {REST}",
    "blank": "atc --model a.onnx --framework 5 --output out --soc_version Ascend310P3",
    "single dash": "atc -model=a.onnx -framework=5 -output=out -soc_version=Ascend310P3",
    "dashes in names": f'atc --model=a.onnx --input-shape="x:1,3,8,8" --out-nodes="Conv_0:0" {REST}',
    "abbreviation": f"atc --model=a.onnx --out_node=Conv_0:0 --device=0 --op_precision=p.ini {REST}",
    "single quotes": f"atc --model=a.onnx --input_shape='x:1,3,8,8;y:1,2' {REST}",
    "blanks in a shape": f'atc --model=a.onnx --input_shape="x: 1, 3, 8, 8; y:1,2" {REST}',
    "continued": "atc --model=a.onnx \\\n  --framework=5 \\\n  --output=out \\\n  --soc_version=Ascend310P3",
    "blank after the backslash": "atc --model=a.onnx \\ \n  --framework=5 \\\n  --output=out --soc_version=Ascend310P3",
    "backslash at the end": f"atc --model=a.onnx {REST} \\",
    "environment before": f"ASCEND_SLOG_PRINT_TO_STDOUT=1 atc --model=a.onnx {REST}",
    "path before": f"${{install_path}}/atc/bin/atc --model=a.onnx {REST}",
    "after &&": f"source set_env.sh && atc --model=a.onnx {REST} && echo done",
    "redirected": f"atc --model=a.onnx >log.txt {REST} 2>&1",
    "commented": f"atc --model=a.onnx {REST}  # converts",
    "variables": "atc --model=$1 --framework=5 --output=m_bs${bs} --input_shape=x:${bs},3,8,8 --soc_version=Ascend${chip_name}",
    "loop": 'for bs in 1 4 8; do\natc --model=a.onnx --input_shape="x:$bs,3,8,8" ' + REST + "\ndone",
    "ends with --": f"atc --model=a.onnx {REST} --",
    "ranges": f'atc --model=a.onnx --input_shape="x:1~8,3,32~640,-1" {REST}',
    "ranges in brackets": f'atc --model=a.onnx --input_shape="x:[1~8,3];y:[1,80]" {REST}',
    "older ranges": f'atc --model=a.onnx --input_shape_range="x:[1~8,3,-1]" {REST}',
    "scalar": f'atc --model=a.onnx --input_shape="x:1,3;flag:" {REST}',
    "gears": f'atc --model=a.onnx --input_shape="x:-1,3,8,8" --dynamic_dims="1;4;8" --input_format=ND {REST}',
    "help": "atc -h",
    "single operator": "atc --singleop=add.json --output=ops --soc_version=Ascend310P3",
    "json": "atc --mode=1 --om=m.om --json=m.json",
}


@pytest.mark.parametrize("command", SHELL.values(), ids=SHELL)
def test_a_command_of_a_shell_script_is_read(corpus: ModuleType, tmp_path: Path, command: str) -> None:
    (tmp_path / "convert.sh").write_text(f"#!/bin/bash\n{command}\n")
    (found,) = corpus.read(tmp_path)
    assert [p for p in found.problems if p.code != "E10055"] == []


def test_a_page_and_a_python_script_are_read_too(corpus: ModuleType, tmp_path: Path) -> None:
    page = (
        f'1. Convert\n   ```\n   atc --model=a.onnx --input_shape="x:{{batch size}},3" {REST}\n   ```\nThe `atc` tool.'
    )
    (tmp_path / "README.md").write_text(page)
    script = f"import os\nos.system('atc --model={{}} '\n          '--input_shape=\"x:1,3\" {REST}'.format('a.onnx'))\n"
    (tmp_path / "convert.py").write_text(script)
    found = corpus.read(tmp_path)
    assert [item.place for item in found] == ["README.md:3", "convert.py:2"]
    assert not any(item.problems for item in found)
    assert "--input_shape=x:1,3" in found[0].words


MISTAKES = {
    "blank after equals": (f"atc --model= a.onnx {REST}", "Remove the blank after the equals sign: --model=a.onnx"),
    "no blank between": (f"atc --model=a.onnx --input_shape=x:1,3{REST}", "Write a blank before --framework."),
    "misspelt option": (f"atc --modle=a.onnx {REST}", "Did you mean --model?"),
    "misspelt value": (
        f"atc --model=a.onnx --op_select_implmode=high_preformance {REST}",
        "Did you mean high_performance?",
    ),
    "no backslash": ("atc --model=a.onnx --framework=5\n  --output=out", "every line but the last ends in a backslash"),
    "unquoted blanks": (f"atc --model=a.onnx --input_shape=x:1, 3 {REST}", '--input_shape="x:1, 3"'),
    "ambiguous": (f"atc --model=a.onnx --dynamic=1 {REST}", "--dynamic_batch_size, --dynamic_image_size"),
    "full-width": (f"atc --model=a.onnx --input_shape=x：1，3 {REST}", "1,3"),
}


@pytest.mark.parametrize(("command", "suggestion"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_refused_with_what_to_write(
    corpus: ModuleType, tmp_path: Path, command: str, suggestion: str
) -> None:
    (tmp_path / "convert.sh").write_text(command + "\n")
    (found,) = corpus.read(tmp_path)
    assert any(suggestion in problem.fix for problem in found.problems), found.problems


def test_only_reviewed_refusals_count_as_genuine(
    corpus: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, stray = f"atc --model=a.onnx {REST}\n", f"atc --model= a.onnx {REST}\n"
    (tmp_path / "convert.sh").write_text(good + stray)
    monkeypatch.setattr(sys, "argv", ["option_corpus.py", str(tmp_path)])
    assert corpus.main() == 0
    (tmp_path / "convert.sh").write_text(good + f"atc --nonsense=1 {REST}\n")
    assert corpus.main() == 1


def test_the_command_of_the_articles_is_read_as_meant() -> None:
    flags = parse(["--model=resnet50.onnx", *REST.split(), "--input_format=NCHW", "--input_fp16_nchw=data:1,3,224,224"])
    options = from_flags(flags)
    assert (options.input_shape, options.input_fp16_nodes) == ("data:1,3,224,224", "data")
