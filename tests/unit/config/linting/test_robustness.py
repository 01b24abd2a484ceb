"""The whole command on files nobody would write: an answer and an exit code, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

GOOD = (
    b"physicalCluster:\n  cellTypes:\n    NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}\n"
    b"  physicalCells:\n  - {cellType: NODE, cellAddress: worker1}\n"
    b"virtualClusters:\n  default:\n    virtualCells:\n    - {cellType: NODE, cellNumber: 1}\n"
)


def paictl(*words: str, data: bytes = b"", folder: Path = ROOT) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "paictl", "config", "validate", *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDEVMODE": "0"}
    done = subprocess.run(
        command, input=data, capture_output=True, check=False, cwd=folder, env=environment, timeout=300
    )
    assert b"Traceback" not in done.stderr
    assert b"internal error" not in done.stderr
    return done


HOSTILE = {
    "bomb.yaml": b"a: &a [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]\n"
    + b"".join(b"%c: &%c [%s]\n" % (c, c, b", ".join([b"*%c" % (c - 1)] * 10)) for c in b"bcdefghi"),
    "cycle.yaml": b"physicalCluster: &a\n  cellTypes: *a\n",
    "deep.yaml": b"physicalCluster: " + b"[" * 100_000,
    "latin1.yaml": b"user: caf\xe9\n",
    "nul.yaml": b"user: a\0b\n",
    "surrogate.yaml": b"user: \xed\xa0\x80\n",
    "utf16.yaml": "user: x\n".encode("utf-16"),
    "number.yaml": b"user: 0x" + b"f" * 100_000 + b"\n",
    "sexagesimal.yaml": b"user: " + b":".join([b"1"] * 100_000) + b"\n",
    "line.yaml": b"user: " + b"x" * 1_000_000 + b"\nuser: 1\n",
    "escapes.yaml": b"\"user\\x1b[2J\": 1\n'\xc2\x9b31m': 1\nphysicalCluster: 1\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_answered(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(HOSTILE[name])
    done = paictl(name, folder=tmp_path)
    assert done.returncode == 1
    assert name.encode() in done.stdout
    assert b"\x1b" not in done.stdout + done.stderr


def test_a_folder_of_all_of_them_is_answered_in_other_formats_too(tmp_path: Path) -> None:
    for name, data in HOSTILE.items():
        (tmp_path / name).write_bytes(data)
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "dangling.yaml").symlink_to(tmp_path / "nowhere")
    with (tmp_path / "sparse.yaml").open("wb") as handle:
        handle.truncate(100 * 1024 * 1024)
    (tmp_path / os.fsdecode(b"\xff\x1b[2J.csv")).write_bytes(b"a,b,c\n")
    for form in ("text", "sarif", "junit"):
        done = paictl(".", "--strict", "--format", form, folder=tmp_path)
        assert done.returncode == 2
        assert b"\x1b" not in done.stdout + done.stderr
        done.stdout.decode("utf-8")
        assert b"sparse.yaml: has 104,857,600 bytes" in done.stderr


@pytest.mark.parametrize("words", [("-",), ("--fix", "-"), ("--diff", "-")])
def test_standard_input_over_the_limit_is_refused(words: tuple[str, ...]) -> None:
    done = paictl(*words, data=b" " * (33 * 1024 * 1024))
    assert done.returncode == 2
    assert b"the limit is" in done.stderr


def test_standard_input_comes_back_repaired_or_as_it_was() -> None:
    broken = GOOD.replace(b"childCellNumber: 4", b'childCellNumber: "4"')
    done = paictl("--fix", "-", data=broken)
    assert (done.returncode, done.stdout) == (0, GOOD)
    for data in (GOOD + b"# \xff\n", GOOD.decode().encode("utf-16"), b"a: [\n"):
        done = paictl("--fix", "-", data=data)
        assert (done.returncode, done.stdout) == (1, data)


def test_a_reader_that_goes_away_is_no_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "hivedscheduler.yaml"
    path.write_bytes(GOOD + b"".join(b"k%d: 1\n" % number for number in range(5000)))
    command = f"{sys.executable} -m paictl config validate {path} | head -c 100"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=300,
    )
    assert len(done.stdout) == 100
    assert done.stderr == b""


def test_a_full_disk_under_the_report_is_said() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    command = f"echo colour: blue | {sys.executable} -m paictl config validate - > /dev/full"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=300,
    )
    assert b"Traceback" not in done.stderr
    assert done.returncode == 2
