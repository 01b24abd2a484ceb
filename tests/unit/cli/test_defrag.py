"""`paictl cluster defrag` on a cluster of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Paictl

JOB = """
protocolVersion: 2
name: {name}
type: job
prerequisites: [{{name: image, type: dockerimage, uri: pai/standard}}]
taskRoles:
  t:
    instances: {pods}
    dockerImage: image
    resourcePerInstance: {{gpu: {gpu}, cpu: 1, memoryMB: 100}}
    commands: [sleep 99h]
defaults: {{virtualCluster: tenanta}}
extras: {{hivedScheduler: {{jobPriorityClass: oppo}}, checkpointEvery: 30m}}
"""


@pytest.fixture
def holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paictl: Paictl) -> Path:
    """Four nodes, one job in each of two, and a job that needs three of them."""
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    assert paictl("cluster", "up", "--preset", "three-tenants", "--speed", "0").code == 0
    file = tmp_path / "job.yaml"
    for name, gpu, pods in (("one", 1, 1), ("fill1", 7, 1), ("two", 2, 1), ("fill2", 6, 1)):
        file.write_text(JOB.format(name=name, gpu=gpu, pods=pods), encoding="utf-8")
        assert paictl("job", "submit", str(file), "--user", "me").code == 0
    for name in ("fill1", "fill2"):
        assert paictl("job", "stop", f"me~{name}").code == 0
    file.write_text(JOB.format(name="big", gpu=8, pods=3), encoding="utf-8")
    assert paictl("job", "submit", str(file), "--user", "me").code == 0
    return tmp_path


@pytest.mark.usefixtures("holes")
def test_explain_names_the_plan_and_apply_makes_room(paictl: Paictl) -> None:
    assert (
        "would start after moving 1 gang: paictl cluster defrag plan --for 3xV100-NODE"
        in paictl("job", "explain", "me~big").out
    )
    assert paictl("job", "explain", "me~big", "-o", "json").data["moves"] == 1
    shown = paictl("cluster", "defrag", "plan", "--for", "3xV100-NODE")
    assert (shown.code, shown.out.splitlines()[0][:36]) == (0, "3xV100-NODE: free after 1 move (0/wo")
    row = next(line.split() for line in shown.out.splitlines() if line.startswith("me~"))
    assert row[:4] == ["me~one", "tenanta", "opportunistic", "1"]
    dry = paictl("cluster", "defrag", "apply", "--for", "3xV100-NODE", "--dry-run")
    assert (dry.code, dry.out) == (0, shown.out)
    refused = paictl("cluster", "defrag", "apply", "--for", "3xV100-NODE")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert paictl("job", "show", "me~one", "-o", "json").data["attempt"] == 1
    done = paictl("cluster", "defrag", "apply", "--for", "3xV100-NODE", "--yes")
    assert done.code == 0
    assert "done: 3xV100-NODE free now" in done.out
    assert "me~one runs again on " in done.err
    assert paictl("job", "show", "me~big", "-o", "json").data["state"] == "Running"
    assert paictl("maintenance", "list", "-o", "json").data == []


def test_a_plan_from_a_file_is_applied_once(holes: Path, paictl: Paictl) -> None:
    file = holes / "plan.json"
    words = ("cluster", "defrag", "plan", "--level", "V100-NODE", "--for", "2xV100-NODE", "-o", "json")
    file.write_text(paictl(*words).out, encoding="utf-8")
    assert paictl("cluster", "defrag", "apply", "--plan", str(file), "--yes", "-o", "json").data["applied"] is True
    again = paictl("cluster", "defrag", "apply", "--plan", str(file), "--yes")
    assert (again.code, "the cluster has changed since the plan was made" in again.err) == (2, True)
    file.write_text("{}", encoding="utf-8")
    broken = paictl("cluster", "defrag", "apply", "--plan", str(file))
    assert (broken.code, "is not a defragmentation plan" in broken.err) == (2, True)
    for nonsense in ("no", "[" * 100_000):
        file.write_text(nonsense, encoding="utf-8")
        broken = paictl("cluster", "defrag", "apply", "--plan", str(file))
        assert (broken.code, "is not a defragmentation plan" in broken.err) == (2, True)


@pytest.mark.usefixtures("holes")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--for", "2xV100-NODE"), 0, "already free"),
        (("--for", "4xV100-NODE"), 1, "no move frees them"),
        (("--for", "9xV100-NODE"), 1, "9 can never be free"),
        (("--level", "V100-NOD"), 1, "did you mean 'V100-NODE'?"),
        (("--for", "1xV100-NODE", "--vc", "tenantx"), 1, "no virtual cluster 'tenantx'"),
        (("--for", "0xV100-NODE"), 2, "is not a number of cells"),
        ((), 2, "no cells to free were given"),
    ],
)
def test_what_is_asked_for_in_vain_is_said(paictl: Paictl, words: tuple[str, ...], code: int, said: str) -> None:
    found = paictl("cluster", "defrag", "plan", *words)
    assert (found.code, said in found.out + found.err) == (code, True), found.err
