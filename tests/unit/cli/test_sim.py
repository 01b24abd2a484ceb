from __future__ import annotations

import json
from pathlib import Path

import pytest

from paictl.cli.main import run
from tests.conftest import ROOT

LAB = ROOT / "labs" / "15_fragmentation"
CONFIG = str(LAB / "services-configuration.yaml")


def test_the_exit_code_says_whether_a_tenant_is_worse_off(capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(LAB / "trace.yaml")
    assert run(["sim", "compare", trace, "--config", CONFIG]) == 1
    captured = capsys.readouterr()
    assert "quota: vc1 waited longer than in a private cluster" in captured.err
    assert "cells: " not in captured.err
    assert run(["sim", "compare", trace, "--config", CONFIG, "--policy", "cells", "--each-job"]) == 0
    assert "worker2, worker4" in capsys.readouterr().out


def test_the_same_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "compare", str(LAB / "trace.yaml"), "--config", CONFIG, "-o", "json"]) == 1
    data = json.loads(capsys.readouterr().out)["items"]
    assert [(one["policy"], one["worseThanPrivate"]) for one in data] == [
        ("private", []),
        ("quota", ["vc1"]),
        ("cells", []),
    ]
    big = data[1]["jobs"][-1]
    assert big["waited"] == big["despiteFreeCount"] == (8 * 60 + 2 - 90) * 60_000


@pytest.mark.parametrize(
    ("text", "said"),
    [("jobs: [", "is not YAML"), ("jobs: 3", "jobs: expected a list"), (None, "no such file")],
)
def test_a_bad_trace_is_refused(
    text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.yaml"
    if text is not None:
        trace.write_text(text, encoding="utf-8")
    assert run(["sim", "compare", str(trace), "--config", CONFIG]) == 2
    err = capsys.readouterr().err
    assert f"{trace}: " in err
    assert said in err
    assert "hint: " in err


def test_an_unknown_policy_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "compare", str(LAB / "own.yaml"), "--config", CONFIG, "--policy", "counts"]) == 2
    assert "private, quota, cells" in capsys.readouterr().err


def test_the_example_cluster_with_its_two_chains_and_its_pinned_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.yaml"
    trace.write_text(
        "jobs:\n"
        "- {name: render, vc: default, runs: 1h, devices: 4, pods: 2}\n"
        "- {name: asr, vc: speech, runs: 1h, devices: 8, pinned: speech-box}\n"
        "- {name: tts, vc: speech, runs: 1h, devices: 8, type: V100}\n",
        encoding="utf-8",
    )
    example = str(ROOT / "examples" / "cluster")
    assert run(["sim", "compare", str(trace), "--config", example, "--policy", "cells", "-o", "json"]) == 0
    (cells,) = json.loads(capsys.readouterr().out)["items"]
    assert {one["name"]: one["nodes"] for one in cells["jobs"]} == {
        "render": ["t4-1", "t4-2"],
        "asr": ["v100-4"],
        "tts": ["v100-1"],
    }
