"""`msprof` runs programs with collection on, and works on what it collected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from asc_devkit.cli import msprof
from asc_devkit.cli.errors import guarded
from asc_devkit.errors import AscError
from asc_devkit.profiling.collect import options
from tests.profiling import trees

Convert = Callable[[str, str], Path]
PROGRAM = """
import sys, numpy as np
from ais_bench.infer.interface import InferSession
session = InferSession(0, sys.argv[1])
feeds = [np.zeros(i.shape, np.int64) for i in session.get_inputs()]
for _ in range(int(sys.argv[2])):
    session.infer(feeds)
print("finished")
"""
CHILDREN = """
import multiprocessing, sys
sys.argv = [sys.argv[0], sys.argv[1], "2"]
def work():
    exec(compile(open("app.py").read(), "app.py", "exec"), {})
if __name__ == "__main__":
    context = multiprocessing.get_context(METHOD)
    children = [context.Process(target=work) for _ in range(2)]
    [c.start() for c in children]
    [c.join() for c in children]
    sys.exit(max(c.exitcode for c in children))
"""


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "asc_devkit.cli.msprof", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(PROGRAM)
    return tmp_path


@pytest.mark.seed("F1")
def test_the_articles_command_profiles_a_program(convert: Convert, place: Path) -> None:
    model = convert("minilm", "Ascend310P3")
    done = run(
        f"--application={sys.executable} app.py {model} 3",
        "--output=prof/",
        "--soc_version=Ascend910B1",
        "--model_execution_on=on",
        "--data_sampling_on=on",
        "--aicpu_trace_on=on",
        cwd=place,
    )
    assert done.returncode == 0, done.stderr
    assert "finished" in done.stdout
    assert "simulated" in done.stderr
    tree = trees.only(place / "prof")
    assert len(trees.rows(tree, "step_trace")) == 3
    calls = {r["API Name"]: int(r["Count"]) for r in trees.rows(tree, "api_statistic")}
    assert calls["aclmdlExecute"] == 3 and calls["aclmdlLoadFromFile"] == 1
    info = json.loads((tree / "device_0/info.json.0").read_text())
    assert info["DeviceInfo"][0]["soc_version"] == "Ascend910B1"
    assert trees.rows(tree, "ai_core_utilization")
    sample = json.loads((tree / "device_0/sample.json").read_text())
    assert sample["ai_core_profiling_mode"] == "sample-based"


def test_a_trailing_command_is_profiled(convert: Convert, place: Path) -> None:
    done = run(
        "--output=prof", "--aic-metrics", "Memory", "app.py", str(convert("minilm", "Ascend910B1")), "1", cwd=place
    )
    assert done.returncode == 0, done.stderr
    assert "aiv_ub_read_bw(GB/s)" in trees.header(trees.only(place / "prof"), "op_summary")


def test_a_model_is_profiled_without_a_program(convert: Convert, place: Path) -> None:
    done = run("--json", "--output=prof", str(convert("ppocr_cls", "Ascend310P3")), "--loop", "2", cwd=place)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout[done.stdout.rindex('{\n  "schema"') :])
    assert report["device_times"] == "simulated"
    assert all(Path(f).is_file() for f in report["files"])
    assert len(trees.rows(Path(report["trees"][0]), "step_trace")) == 2


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_processes_get_trees_of_their_own(convert: Convert, place: Path, method: str) -> None:
    (place / "parent.py").write_text(CHILDREN.replace("METHOD", repr(method)))
    done = run("--output=prof", "parent.py", str(convert("minilm", "Ascend910B1")), cwd=place)
    assert done.returncode == 0, done.stderr
    found = sorted((place / "prof").glob("PROF_*"))
    assert len(found) == 2
    assert len({json.loads((t / "host/info.json").read_text())["pid"] for t in found}) == 2
    assert all(len(trees.rows(t, "step_trace")) == 2 for t in found)


def test_a_killed_program_leaves_what_it_had_collected(convert: Convert, place: Path) -> None:
    code = PROGRAM.replace(
        'print("finished")', "import os, signal, time; time.sleep(2.5); os.kill(os.getpid(), signal.SIGKILL)"
    )
    (place / "app.py").write_text(code)
    done = run("--output=prof", "app.py", str(convert("minilm", "Ascend910B1")), "2", cwd=place)
    assert done.returncode == 1
    assert "signal 9" in done.stderr
    assert len(trees.rows(trees.only(place / "prof"), "step_trace")) == 2


def test_a_failing_program_is_reported_and_its_profile_kept(convert: Convert, place: Path) -> None:
    (place / "app.py").write_text(PROGRAM + "\nsys.exit(7)\n")
    done = run("--output=prof", "app.py", str(convert("minilm", "Ascend910B1")), "1", cwd=place)
    assert done.returncode == 1
    assert "exit code 7" in done.stderr
    assert trees.rows(trees.only(place / "prof"), "op_summary")


@pytest.mark.provokes("ASC6017")
def test_a_program_without_a_device_is_told_what_is_missing(place: Path) -> None:
    (place / "app.py").write_text("print(1)")
    done = run("--output=prof", "app.py", cwd=place)
    assert done.returncode == 1
    assert "Nothing was collected" in done.stderr and "Traceback" not in done.stderr


def test_the_environment_option_reaches_the_program(place: Path) -> None:
    (place / "app.py").write_text("import os; print(os.environ['COLOUR'], os.environ['SIZE'])")
    assert "red 3" in run("--output=prof", "--environment=COLOUR=red;SIZE=3", "app.py", cwd=place).stdout


def test_the_host_is_watched_on_request(convert: Convert, place: Path) -> None:
    done = run("--output=prof", "--host-sys=cpu,mem", "app.py", str(convert("minilm", "Ascend910B1")), "20", cwd=place)
    assert done.returncode == 0, done.stderr
    tree = trees.only(place / "prof")
    (memory,) = trees.rows(tree, "host_mem_usage")
    assert 20_000 < int(memory["Peak Used Memory(KB)"]) < int(memory["Total Memory(KB)"])
    (cpu,) = trees.rows(tree, "host_cpu_usage")
    assert 1 <= int(cpu["Occupied Cpu Numbers"]) <= int(cpu["Total Cpu Numbers"]) == os.cpu_count()
    assert any(e["name"] == "Memory Usage" and e["ph"] == "C" for e in trees.timeline(tree))


def test_collected_trees_are_queried_parsed_and_exported_again(
    convert: Convert, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--output=prof", "app.py", str(convert("minilm", "Ascend910B1")), "3", cwd=place).returncode == 0
    tree = trees.only(place / "prof")
    everything = trees.rows(tree, "op_summary")

    assert msprof.run(["--query=on", f"--output={place / 'prof'}"]) == 0
    shown = capsys.readouterr().out
    assert "Iteration Number" in shown and tree.name in shown

    assert msprof.run(["--json", "--parse=on", "--output", str(tree)]) == 0
    (counts,) = json.loads(capsys.readouterr().out)["parsed"].values()
    assert counts["executions"] == 3 and counts["device tasks"] == len(everything)

    assert msprof.run(["--export=on", f"--output={tree}", "--model-id=1", "--iteration-id=2"]) == 0
    one = trees.rows(tree, "op_summary")
    assert len(one) * 3 == len(everything)
    assert one[0]["Task Start Time(us)"] in {r["Task Start Time(us)"] for r in everything}

    assert msprof.run(["--export=on", f"--output={tree}", "--summary-format=json"]) == 0
    table = json.loads(trees.found(tree, "op_summary").read_text())
    assert [r["Op Name"] for r in table] == [r["Op Name"] for r in everything]

    assert msprof.run(["--export=on", f"--output={tree}", "--type=db"]) == 0
    assert trees.sql(tree, "SELECT count(*) FROM TASK") == [(len(everything),)]

    assert msprof.run(["--analyze=on", f"--output={tree}"]) == 0
    assert json.loads((tree / "analyze/communication.json").read_text()) == {"step": {"p2p": {}, "collective": {}}}


@pytest.mark.provokes("ASC6014")
def test_reports_switch_parts_of_the_timeline(convert: Convert, place: Path) -> None:
    assert run("--output=prof", "app.py", str(convert("minilm", "Ascend910B1")), "1", cwd=place).returncode == 0
    tree = trees.only(place / "prof")
    (place / "reports.json").write_text(json.dumps({"json_process": {"ascend": True}}))
    assert msprof.run(["--export=on", f"--output={tree}", f"--reports={place / 'reports.json'}"]) == 0
    names = {e["args"]["name"] for e in trees.timeline(tree) if e["name"] == "process_name"}
    assert names == {"Ascend Hardware"}
    (place / "reports.json").write_text("[]")
    assert guarded(lambda: msprof.run(["--export=on", f"--output={tree}", f"--reports={place / 'reports.json'}"])) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--outptu=x", "a.py"], "Did you mean --output"),
        (["--aic-metrics=PipeUtilisation", "a.py"], "Did you mean PipeUtilization"),
        (["--aic-freq=0", "a.py"], "1 to 100"),
        (["--aic-freq=1e2", "a.py"], "1 to 100"),
        (["--task-time=l2", "a.py"], "on, off, l0, l1"),
        (["--model-id=1", "--export=on", "--output=x"], "both or neither"),
        (["--instr-profiling=on", "--task-time=on", "a.py"], "excludes --task-time"),
        (["--mstx-domain-include=a", "--mstx-domain-exclude=b", "a.py"], "excludes"),
        (["--dynamic=on", "a.py"], "--delay and --duration"),
        (["--application=a.py", "b.py"], "once"),
        (["--export=on", "--output=x", "a.py"], "Run them apart"),
        (["--output"], "needs a value"),
        (["--export=on"], "--output is missing"),
        (["--export=on", "--output=/nowhere"], "no profiling data"),
        (["--output=x", "missing.py"], "does not exist"),
        (["--output=x", "no_such_program"], "cannot be found"),
        (["--output=x"], "No program"),
        (["--environment=A", "--output=x", sys.executable], "K=V"),
        (["--soc-version=Ascend999", "--output=x", sys.executable], "Ascend999"),
    ],
)
def test_mistakes_are_explained(
    words: list[str], message: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    assert guarded(lambda: msprof.run(words)) == 2
    assert message in capsys.readouterr().err


@pytest.mark.provokes("ASC6010", "ASC6011")
def test_all_mistakes_are_listed_at_once() -> None:
    with pytest.raises(AscError) as caught:
        options.parse(["--outptu=x", "--aic-freq=101", "--type=xml", "a.py"])
    assert len(caught.value.problems) == 3


@pytest.mark.provokes("ASC6002")
def test_raw_data_of_the_vendors_tool_are_refused_in_a_sentence(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "PROF_000001_20240418071826722_FAIIQKPEMHJLPCIC/host/data").mkdir(parents=True)
    assert guarded(lambda: msprof.run(["--export=on", f"--output={place}"])) == 2
    assert "another tool" in capsys.readouterr().err


def test_every_option_of_the_vendor_is_described() -> None:
    shown = options.help_text()
    for name in ("ascendcl", "runtime-api", "task-time", "aic-metrics", "sys-hardware-mem", "host-sys", "iteration-id"):
        assert f"--{name}=" in shown
    assert {spec.effect for spec in options.table().values()} <= {"implemented", "recorded", "not here", "refused"}


def test_delay_and_duration_bound_what_is_collected(convert: Convert, place: Path) -> None:
    code = PROGRAM.replace("session.infer(feeds)", "session.infer(feeds); import time; time.sleep(0.7)")
    (place / "app.py").write_text(code)
    done = run(
        "--output=prof", "--delay=1", "--duration=1", "app.py", str(convert("minilm", "Ascend910B1")), "5", cwd=place
    )
    assert done.returncode == 0, done.stderr
    assert 1 <= len(trees.rows(trees.only(place / "prof"), "step_trace")) <= 2
