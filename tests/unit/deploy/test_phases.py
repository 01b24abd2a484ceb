"""What holds for the phases of every deployment and upgrade, and for what they push."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from paictl.deploy import installing
from paictl.deploy import phases as phases_module
from paictl.deploy.apply import PhaseTimes, _write_plan, raise_first
from paictl.deploy.artifacts import Artifact, ArtifactKind
from paictl.deploy.facts import HostFacts
from paictl.deploy.installing import PushArtifacts
from paictl.deploy.inventory import Machine, Role
from paictl.deploy.phases import HostChange, LockForChanges, phases
from paictl.deploy.site import DeployError, Site, pack, pack_folder
from paictl.deploy.upgrading import UpgradeOptions, UpgradeWork, upgrade_phases
from paictl.deploy.versions import Version
from paictl.errors import ExitCode
from paictl.plan.events import PhaseBegan, PhaseDone, PhaseFailed, RunEnded
from paictl.plan.run import PhaseOutcome, PhaseStatus
from tests.unit.deploy.loading import load

SITE = cast("Site", None)
"""No phase looks at it before it runs."""


def test_nothing_goes_on_behind_a_phase_that_failed() -> None:
    for line in (phases(SITE), upgrade_phases(UpgradeWork(SITE, UpgradeOptions(Version(1, 37, 1))))):
        ids = [one.id for one in line]
        assert len(ids) == len(set(ids)) > 5
        for number, one in enumerate(line):
            assert one.needs == frozenset(ids[:number]), one.id


def test_the_first_phase_that_failed_is_told() -> None:
    error = DeployError("no room", exit_code=ExitCode.PARTIAL)
    blocked = PhaseOutcome("c", PhaseStatus.BLOCKED, by="b")
    done, failed = PhaseOutcome("a", PhaseStatus.DONE), PhaseOutcome("b", PhaseStatus.FAILED, error)
    raise_first((done,))
    with pytest.raises(DeployError, match="no room"):
        raise_first((done, failed, blocked))


def test_the_seconds_of_each_phase_are_kept_for_nobody_else(tmp_path: Path) -> None:
    now = [datetime(2026, 11, 22, tzinfo=UTC)]
    times = PhaseTimes(tmp_path, lambda: now[0])
    for phase, seconds, end in (("a", 2.5, PhaseDone("a")), ("b", 1.0, PhaseFailed("b", "no"))):
        now[0] += timedelta(minutes=1)
        times(PhaseBegan(phase, 1, 2))
        now[0] += timedelta(seconds=seconds)
        times(end)
    times(RunEnded(ok=False))
    (file,) = tmp_path.iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("times.json", 0o600)
    assert json.loads(file.read_text()) == {"a": 2.5, "b": 1.0}


def test_a_plan_is_kept_with_its_run_for_nobody_else(tmp_path: Path) -> None:
    folder: Any = SimpleNamespace(path=tmp_path)
    _write_plan(folder, [HostChange("runtime", "w1", ("containerd 2.1 -> 2.2",))])
    (file,) = tmp_path.iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("plan.json", 0o600)
    assert json.loads(file.read_text()) == [{"phase": "runtime", "host": "w1", "what": ["containerd 2.1 -> 2.2"]}]


@pytest.mark.parametrize("due", [(), (HostChange("runtime", "w1", ("x",)),)])
def test_nobody_is_kept_out_where_nothing_is_to_be_changed(
    due: tuple[HostChange, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phases_module, "planned", lambda _: due)
    assert (LockForChanges(SITE).should_run() == "") is bool(due)


def test_what_is_pushed_is_the_run_s_own_and_what_a_killed_run_left_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two deployments at once once took the archive away under each other."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    packs = tmp_path / "paictl" / "packs"
    other, dead = packs / str(os.getppid()), packs / str(2**22 + 1)  # Linux gives no higher number than 2^22
    for folder in (other, dead):
        folder.mkdir(parents=True)
        (folder / "x.tar").touch()
    with pack_folder() as mine:
        mine.mkdir()
        (mine / "x.tar").touch()
        assert sorted(packs.iterdir()) == sorted([other, mine])
    assert list(packs.iterdir()) == [other]


def test_a_host_that_lacks_nothing_is_pushed_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = [Machine(name, f"10.0.0.{number}", Role.WORKER) for number, name in enumerate(("w1", "w2", "w3"), 1)]
    lacks = {"w1": ["kubelet"], "w2": [], "w3": ["runc"]}
    facts = {one.name: HostFacts(one, {"differences": {"programs": lacks[one.name], "images": []}}) for one in machines}
    played: list[Any] = []
    site: Any = SimpleNamespace(
        machines=machines,
        private=tmp_path,
        facts=facts,
        desired=SimpleNamespace(artifacts=None),
        play=lambda *given: played.append(given),
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(installing, "verify", lambda _: None)
    (tmp_path / "a.tar").touch()
    packed = {"w1": tmp_path / "a.tar", "w3": None}  # only images for another role are missing on w3
    monkeypatch.setattr(installing, "pack", lambda _, machine, *__: packed[machine.name])
    PushArtifacts(site).run(lambda *_: None)
    ((name, _, due, variables, _),) = played
    assert (name, [one.name for one in due]) == ("artifacts", ["w1", "w3"])
    packs = {"w1": str(tmp_path / "a.tar")}
    assert variables == {"paictl_packs": packs, "paictl_progress": str(tmp_path / "progress")}


@pytest.mark.parametrize(
    ("programs", "images", "there", "due"),
    [
        (["kubelet"], ["etcd"], [], True),
        (["kubelet"], ["etcd"], ["kubelet", "etcd"], True),  # they still have to be put in their places
        ([], ["etcd", "pause"], ["etcd", "pause", "other"], False),
        ([], ["etcd", "pause"], ["etcd"], True),
        ([], [], [], False),
    ],
)
def test_images_that_were_pushed_already_are_no_reason_to_push(
    programs: list[str], images: list[str], there: list[str], due: bool
) -> None:
    """An apply that ended between its phases sent all images again: hundreds of megabytes, an hour by a slow link."""
    machine = Machine("w1", "10.0.0.1", Role.WORKER)
    facts = HostFacts(machine, {"differences": {"programs": programs, "images": images}, "packed": there})
    assert bool(PushArtifacts(SimpleNamespace()).changes(facts)) is due  # type: ignore[arg-type]


def test_what_a_host_has_in_its_pack_is_not_packed_again(tmp_path: Path) -> None:
    artifacts = {}
    for name in ("kubelet", "etcd"):
        (tmp_path / name).write_text(name)
        artifacts[name] = Artifact(name, ArtifactKind.BINARY, "v1", "amd64", "", f"{name:0<64}", name)
    archive = SimpleNamespace(name="etcd.tar", artifact=artifacts["etcd"], is_for=lambda _: True)
    desired: Any = SimpleNamespace(
        programs=lambda: [{"name": "kubelet", "file": "kubelet"}],
        archives=[archive],
        artifacts=SimpleNamespace(need=artifacts.__getitem__, file=lambda one: tmp_path / one.path),
    )
    machine = Machine("w1", "10.0.0.1", Role.WORKER)

    def packed(*there: str) -> bool:
        values = {"differences": {"programs": ["kubelet"], "images": ["etcd.tar"]}, "packed": there}
        return pack(desired, machine, HostFacts(machine, values), tmp_path / "packs") is not None

    assert [packed(), packed("etcd.tar"), packed("kubelet", "etcd.tar")] == [True, True, False]


def test_files_of_a_pack_count_only_if_they_are_whole(tmp_path: Path) -> None:
    module, files = load("module_utils/paictl_host.py"), {"a": b"a" * 30_000, "b": b"b" * 30_000}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    path = tmp_path / "pack.tar"
    with tarfile.open(path, "w") as made:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            made.addfile(about, io.BytesIO(content))
    assert module.packed_files(str(path), sums) == ["a", "b"]
    assert module.packed_files(str(path), {**sums, "b": sums["a"], "c": sums["a"]}) == ["a"]
    whole = path.read_bytes()
    path.write_bytes(whole[:40_000])
    assert module.packed_files(str(path), sums) == ["a"]
    path.unlink()
    assert module.packed_files(str(path), sums) == []
    path.write_bytes(gzip.compress(whole)[:-20])
    assert module.packed_files(str(path), sums) == [], "it is not ours, and ends early"
