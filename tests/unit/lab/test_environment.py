"""The machine, as Linux and macOS tell about it."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import pytest

from paictl.lab.language import language_of
from paictl.lab.report import content as machine


def test_the_table_of_the_textbook_is_filled() -> None:
    found = machine.environment()
    assert set(found) == {"cpu", "memory", "gpu", "os", "driver", "cuda", "runtime", "python", "paictl"}
    assert "vCPU" in found["cpu"]
    assert found["memory"].endswith(" GiB")


def test_driver_cuda_and_runtime_are_asked_of_their_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        ("nvidia-smi", "--query-gpu=driver_version"): "550.54.15\n550.54.15\n",
        ("nvidia-smi",): "| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4     |\n",
        ("nvidia-smi", "-L"): "GPU 0: Tesla K80 (UUID: GPU-1)\n",
        ("containerd", "--version"): "containerd github.com/containerd/containerd/v2 v2.1.3 c787fb9\n",
        ("docker", "--version"): "Docker version 28.1.1, build 4eba377\n",
    }
    there = {program for program, *_ in answers}
    monkeypatch.setattr(shutil, "which", lambda name: name if name in there else None)
    monkeypatch.setattr(machine, "_output", lambda command: answers[tuple(command[:2])])
    found = machine.environment()
    assert found["driver"] == "550.54.15"
    assert found["cuda"] == "12.4"
    assert found["runtime"] == "containerd 2.1.3, docker 28.1.1"


def test_macos_is_asked_in_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"machdep.cpu.brand_string": "Apple M2\n", "hw.memsize": "17179869184\n"}

    def no_pages(_: str) -> int:
        raise ValueError

    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(Path, "is_file", lambda _: False)
    monkeypatch.setattr(os, "sysconf", no_pages)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(machine, "_output", lambda command: answers[command[-1]])
    assert machine.environment()["cpu"].startswith("Apple M2, ")
    assert machine.environment()["memory"] == "16 GiB"


def test_a_machine_that_tells_nothing_leaves_the_table_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_pages(_: str) -> int:
        raise ValueError

    monkeypatch.setattr(os, "sysconf", no_pages)
    assert machine.environment()["memory"] == ""


@pytest.mark.parametrize(("told", "language"), [("zh_CN\n", "zh"), ("en_GB\n", "en")])
def test_without_lang_macos_tells_the_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, language: str
) -> None:
    import subprocess

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[-1] == "AppleLocale"
        return subprocess.CompletedProcess(command, 0, told, "")

    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    assert language_of(tmp_path) == "en", "elsewhere there is nobody to ask"
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(subprocess, "run", run)
    assert language_of(tmp_path) == language
