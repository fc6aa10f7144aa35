"""`asc doctor` on machines of every kind: bare, complete, contradictory, damaged."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from asc_devkit.doctor import Diagnosis, Finding, State, diagnose
from tests.cli.shell import asc, run
from tests.doctor import machines as make

ROOT = Path(__file__).resolve().parents[2]
NEW_HOME = "/usr/local/Ascend/cann"
OLD_HOME = "/usr/local/Ascend/ascend-toolkit/latest"
WITH_DRIVER = {"/usr/local/Ascend/driver/version.info": make.DRIVER.format(inner="V100R001C19")}


def found(diagnosis: Diagnosis, name: str) -> Finding:
    return next(f for section in diagnosis.sections for f in section.findings if f.name == name)


def toolkit(home: str, version: str, architecture: str = "x86_64-linux") -> dict[str, str]:
    return {f"{home}/{architecture}/ascend_toolkit_install.info": make.TOOLKIT.format(version=version)}


def test_a_machine_without_anything_from_the_vendor_is_fine(tmp_path: Path) -> None:
    diagnosis = diagnose(make.machine(tmp_path))
    assert not diagnosis.wrong
    for name in ("NPU devices", "npu-smi", "Driver", "CANN", "torch", "torch_npu"):
        assert found(diagnosis, name).state is State.MISSING


def test_a_missing_extra_says_what_it_would_enable_and_how_to_get_it(tmp_path: Path) -> None:
    extra = found(diagnose(make.machine(tmp_path)), "extra [train]")
    assert extra.state is State.MISSING
    assert "torch" in extra.value and "scikit-learn" in extra.value
    assert "example" in extra.note
    assert extra.fix == 'pip install "asc-devkit[train]"'


@pytest.mark.parametrize(
    ("versions", "text"),
    [({"click": "8.5"}, "not installed"), ({"click": "8.5", "onnxruntime": "1.9.0"}, "1.9.0")],
)
def test_missing_and_outdated_libraries_are_wrong(tmp_path: Path, versions: dict[str, str], text: str) -> None:
    library = found(diagnose(make.machine(tmp_path, versions=versions)), "onnxruntime")
    assert (library.state, library.value) == (State.WRONG, text)
    assert library.fix == 'pip install --upgrade "onnxruntime>=1.20"'


def test_a_library_that_cannot_be_imported_is_wrong(tmp_path: Path) -> None:
    printed = {sys.executable: json.dumps({"onnxruntime": "ImportError: libstdc++.so.6: no such file"})}
    library = found(diagnose(make.machine(tmp_path, outputs=printed)), "onnxruntime")
    assert library.state is State.WRONG
    assert "libstdc++" in library.note


def test_devices_driver_and_chips_are_found(tmp_path: Path) -> None:
    files = {**WITH_DRIVER, "/dev/davinci0": "", "/dev/davinci1": "", "/dev/davinci_manager": ""}
    files["/usr/local/Ascend/firmware/version.info"] = "Version=7.5.0.1.129\n"
    subject = make.machine(
        tmp_path, files, programs={"npu-smi": "/usr/local/bin/npu-smi"}, outputs={"npu-smi": make.SMI_310P}
    )
    diagnosis = diagnose(subject)
    assert found(diagnosis, "NPU devices").value.startswith("2 ")
    assert found(diagnosis, "npu-smi").value == "24.1.rc2.b010, 1 chips: 310P3"
    assert found(diagnosis, "npu-smi").note == "--soc Ascend310P3"
    assert found(diagnosis, "Driver").value == "24.1.rc3"
    assert found(diagnosis, "Firmware").value == "7.5.0.1.129"


def test_an_unhealthy_chip_is_named(tmp_path: Path) -> None:
    subject = make.machine(tmp_path, programs={"npu-smi": "/x/npu-smi"}, outputs={"npu-smi": make.SMI_910B})
    smi = found(diagnose(subject), "npu-smi")
    assert (smi.state, smi.value) == (State.DOUBT, "25.2.0, 2 chips: 910B2")
    assert smi.note == "not healthy: 910B2 Warning"


def test_a_failing_npu_smi_is_a_finding(tmp_path: Path) -> None:
    subject = make.machine(tmp_path, programs={"npu-smi": "/x/npu-smi"}, outputs={"npu-smi": None})
    assert found(diagnose(subject), "npu-smi").state is State.DOUBT


def test_a_driver_elsewhere_is_found_through_the_installers_record(tmp_path: Path) -> None:
    files = {
        "/etc/ascend_install.info": "UserName=HwHiAiUser\nDriver_Install_Path_Param=/opt/Ascend\n",
        "/opt/Ascend/driver/version.info": "Version=23.0.3\n",
    }
    assert found(diagnose(make.machine(tmp_path, files)), "Driver").value == "23.0.3"


@pytest.mark.parametrize(("home", "version"), [(NEW_HOME, "8.5.0"), (OLD_HOME, "8.1.RC1")])
def test_cann_is_found_at_the_places_of_old_and_new_releases(tmp_path: Path, home: str, version: str) -> None:
    cann = found(diagnose(make.machine(tmp_path, toolkit(home, version))), "CANN")
    assert (cann.value, cann.state) == (version, State.DOUBT)
    assert cann.fix == f"source {home}/set_env.sh"


def test_the_environment_decides_which_cann_is_in_use(tmp_path: Path) -> None:
    files = {**toolkit(NEW_HOME, "8.5.0"), **toolkit("/opt/cann", "9.0.0", "aarch64-linux")}
    diagnosis = diagnose(make.machine(tmp_path, files, environ={"ASCEND_HOME_PATH": "/opt/cann"}))
    assert (found(diagnosis, "CANN").value, found(diagnosis, "CANN").state) == ("9.0.0", State.OK)
    assert found(diagnosis, "CANN (other)").value == "8.5.0"


def test_one_cann_under_two_names_is_listed_once(tmp_path: Path) -> None:
    subject = make.machine(tmp_path, toolkit("/usr/local/Ascend/cann-8.5.0", "8.5.0"))
    (tmp_path / "usr/local/Ascend/cann").symlink_to("cann-8.5.0")
    names = [f.name for section in diagnose(subject).sections for f in section.findings]
    assert names.count("CANN") == 1 and "CANN (other)" not in names


def test_an_environment_variable_that_leads_nowhere_is_reported(tmp_path: Path) -> None:
    diagnosis = diagnose(make.machine(tmp_path, environ={"ASCEND_TOOLKIT_HOME": "/opt/gone"}))
    assert found(diagnosis, "ASCEND_TOOLKIT_HOME").state is State.DOUBT
    assert found(diagnosis, "CANN").state is State.MISSING


def test_version_cfg_gives_the_version_where_no_install_info_is(tmp_path: Path) -> None:
    diagnosis = diagnose(make.machine(tmp_path, {f"{OLD_HOME}/version.cfg": make.VERSION_CFG}))
    assert found(diagnosis, "CANN").value == "8.0.RC2"


@pytest.mark.parametrize(
    ("inner", "state", "note"),
    [("V100R001C19", State.OK, "declared compatible"), ("V100R001C29", State.DOUBT, "neither lists the other")],
)
def test_driver_and_cann_are_held_against_each_others_lists(
    tmp_path: Path, inner: str, state: State, note: str
) -> None:
    files = {
        "/usr/local/Ascend/driver/version.info": make.DRIVER.format(inner=inner),
        **toolkit(OLD_HOME, "8.1.RC1"),
    }
    pair = found(diagnose(make.machine(tmp_path, files)), "Driver and CANN")
    assert pair.state is state
    assert note in pair.note


@pytest.mark.parametrize(
    ("torch", "torch_npu", "state", "fix"),
    [
        ("2.7.1+cpu", "2.7.1.post2", State.OK, ""),
        ("2.10.0", "2.10.0", State.OK, ""),
        ("2.8.0", "2.7.1.post2", State.WRONG, "pip install torch==2.7.1 or pip install torch-npu==2.8.0.post4"),
        (None, "2.9.0", State.WRONG, "pip install torch==2.9.0"),
    ],
)
def test_torch_npu_belongs_to_exactly_one_torch(
    tmp_path: Path, torch: str | None, torch_npu: str, state: State, fix: str
) -> None:
    versions = {**make.FINE, "torch-npu": torch_npu, **({"torch": torch} if torch else {})}
    pair = found(diagnose(make.machine(tmp_path, versions=versions)), "torch_npu and torch")
    assert (pair.state, pair.fix) == (state, fix)


@pytest.mark.parametrize(
    ("torch_npu", "cann", "state", "note"),
    [
        ("2.5.1.post1", "8.2.RC1", State.OK, "belong together"),
        ("2.8.0.post2", "8.5.1", State.OK, "patch of the same line"),
        ("2.8.0.post2", "8.3.RC1", State.DOUBT, "released with CANN 8.5.0"),
        ("2.8.0.post99", "8.5.0", State.OK, "unknown"),
    ],
)
def test_torch_npu_is_held_against_the_published_cann(
    tmp_path: Path, torch_npu: str, cann: str, state: State, note: str
) -> None:
    versions = {**make.FINE, "torch": torch_npu.split(".post")[0], "torch-npu": torch_npu}
    subject = make.machine(tmp_path, toolkit(NEW_HOME, cann), versions=versions, environ={"ASCEND_HOME_PATH": NEW_HOME})
    pair = found(diagnose(subject), "torch_npu and CANN")
    assert pair.state is state
    assert note in pair.note
    if state is State.DOUBT:
        assert pair.fix == "Install CANN 8.5.0, or pip install torch-npu==2.8.0."


def test_a_python_without_wheels_is_named(tmp_path: Path) -> None:
    versions = {**make.FINE, "torch": "2.1.0", "torch-npu": "2.1.0.post12"}
    diagnosis = diagnose(make.machine(tmp_path, versions=versions, python="3.12.1"))
    assert found(diagnosis, "torch_npu and Python").note == "wheels exist for Python 3.8, 3.9, 3.10, 3.11"


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\xff\xfe" * 1000, b"=" * 100_000, b"version=\x1b[2J8.1\n", b"version=" + b"9" * 1_000_000],
    ids=["empty", "binary", "signs", "escapes", "long"],
)
def test_damaged_version_files_never_stop_the_doctor(tmp_path: Path, content: bytes) -> None:
    subject = make.machine(tmp_path, {**WITH_DRIVER, **toolkit(NEW_HOME, "8.5.0")}, environ={"HOME": "/root"})
    (tmp_path / "etc").mkdir(exist_ok=True)
    for path in [*tmp_path.rglob("*.info"), tmp_path / "etc/os-release", tmp_path / "etc/ascend_install.info"]:
        path.write_bytes(content)
    text = json.dumps(diagnose(subject).as_dict())
    assert "\\u001b" not in text
    assert len(text) < 1 << 20


def test_loops_of_links_and_unreadable_folders_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "usr/local/Ascend").mkdir(parents=True)
    (tmp_path / "usr/local/Ascend/cann").symlink_to("latest")
    (tmp_path / "usr/local/Ascend/latest").symlink_to("cann")
    assert found(diagnose(make.machine(tmp_path)), "CANN").state is State.MISSING


def test_the_table_of_libraries_follows_pyproject() -> None:
    """Every required library has its purpose there, every extra what it enables, and nothing else is."""
    facts = json.loads((ROOT / "src/asc_devkit/doctor/data/libraries.json").read_text(encoding="utf-8"))
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = text.split("\ndependencies = [", 1)[1].split("\n]", 1)[0]
    required = set(re.findall(r'^\s*"([a-z0-9-]+)', block, re.MULTILINE))
    extras = set(re.findall(r"^([a-z]+) = \[", text.split("[project.optional-dependencies]")[1].split("\n[")[0], re.M))
    assert set(facts["purpose"]) == required
    assert extras == set(facts["extras"])


@pytest.mark.seed("D5")
def test_asc_doctor_reports_this_machine(tmp_path: Path) -> None:
    done = asc("doctor", cwd=tmp_path)
    assert done.code == 0, done.out + done.err
    assert re.search(r"ok +onnxruntime +\d", done.out)
    assert "\x1b" not in done.out
    report = json.loads(asc("doctor", "--json", cwd=tmp_path).out)
    assert report["schema"] == "asc-devkit/doctor/1"
    assert report["wrong"] == 0


def test_the_doctor_needs_none_of_the_libraries_it_judges(tmp_path: Path) -> None:
    """It runs in an interpreter in which importing onnx, onnxruntime or numpy fails."""
    code = (
        "import sys\n"
        "for name in ('onnx', 'onnxruntime', 'numpy', 'onnx_ir', 'rich', 'jinja2'): sys.modules[name] = None\n"
        "sys.argv = ['asc', 'doctor']\n"
        "from asc_devkit.cli.main import main\n"
        "main()\n"
    )
    done = run(sys.executable, "-c", code, cwd=tmp_path)
    assert done.code == 0, done.err
    assert "onnxruntime" in done.out
