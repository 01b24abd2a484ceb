"""Saving and restoring etcd on a master, on files of a made-up one: interrupted anywhere, the same steps go on."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.unit.deploy.loading import load

ETCD = """apiVersion: v1
spec:
  containers:
  - command:
    - etcd
    - --data-dir={data}
    - --initial-advertise-peer-urls=https://10.0.0.11:2380
    - --listen-client-urls=https://127.0.0.1:2379,https://10.0.0.11:2379
    - --name=m1
    image: registry.k8s.io/etcd:3.7.0-0
"""
STEPS = ("begin", "prepare", "stop", "swap", "start", "finish")


class KilledError(BaseException):
    """The process ended here."""


class Master:
    """A master whose tools are made up: etcdutl writes which snapshot it was given, crictl sees what is not parked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.program: Any = load("files/paictl_etcd.py")
        self.data, self.kubernetes = folder / "etcd", folder / "kubernetes"
        self.manifests = self.kubernetes / "manifests"
        for path in (self.manifests, self.data / "member", self.kubernetes / "pki"):
            path.mkdir(parents=True)
        (self.kubernetes / "pki/ca.crt").write_text("authority")
        (self.data / "member/is").write_text("mine")
        for name in self.program.PROGRAMS:
            (self.manifests / f"{name}.yaml").write_text(ETCD.format(data=self.data))
        monkeypatch.setattr(self.program, "KUBERNETES", str(self.kubernetes))
        monkeypatch.setattr(self.program, "PKI", str(self.kubernetes / "pki"))
        monkeypatch.setattr(self.program, "PARKED", str(self.kubernetes / "parked"))
        monkeypatch.setattr(self.program, "IMAGE", str(folder / "image"))
        self.notes = folder / "notes"
        self.notes.mkdir()
        monkeypatch.setattr(self.program, "NOTES", str(self.notes))
        monkeypatch.setattr(self.program, "run", self.run)
        monkeypatch.setattr(self.program, "readiness", lambda: "")
        monkeypatch.setattr(self.program, "POLL", 0)
        self.calls: list[tuple[str, ...]] = []

    def noted(self) -> dict[str, str]:
        """Its notes, by name."""
        return {path.name: path.read_text() for path in self.notes.iterdir()}

    def run(self, *words: str, **_: str) -> str:
        self.calls.append(words)
        if words[0] == "kubeadm":
            return "v1.37.1\n"
        if words[:2] == ("crictl", "ps"):
            name = words[-1].strip("^$")
            return "id\n" if (self.manifests / f"{name}.yaml").exists() else ""
        if "restore" in words:
            member = Path(words[words.index("--data-dir") + 1]) / "member"
            member.mkdir(parents=True)
            (member / "is").write_text(Path(words[3]).read_text())
        return ""

    def wish(self, archive: str) -> dict[str, str]:
        digest = hashlib.sha256(archive.encode()).hexdigest()
        return {"id": archive, "begun": "now", "sha256": digest, "members": "m1=https://10.0.0.11:2380"}

    def do(self, step: str, archive: str) -> Any:
        found = self.program.VERBS[step](self.wish(archive))
        if step == "begin":
            Path(found["folder"], "snapshot.db").write_text(archive)
        return found

    def restore(self, archive: str) -> None:
        for step in STEPS:
            self.do(step, archive)

    def has(self, folder: str = "member") -> str:
        path = self.data / folder / "is"
        return path.read_text() if path.exists() else ""

    @property
    def runs(self) -> bool:
        return all((self.manifests / f"{name}.yaml").exists() for name in self.program.PROGRAMS)


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Master:
    return Master(tmp_path, monkeypatch)


def test_a_restore_puts_the_snapshot_in_and_keeps_what_was_there(master: Master) -> None:
    master.restore("old")
    assert (master.has(), master.has("paictl-before/member"), master.runs) == ("old", "mine", True)
    assert sorted(path.name for path in master.data.iterdir()) == ["member", "paictl-before"]
    (made,) = [words for words in master.calls if "restore" in words]
    given = dict(zip(made[4::2], made[5::2], strict=False))
    assert given["--initial-cluster"] == "m1=https://10.0.0.11:2380"
    assert given["--initial-advertise-peer-urls"] == "https://10.0.0.11:2380"
    assert "--bump-revision" in given


def test_nothing_that_is_in_use_is_touched_before_all_are_ready(master: Master) -> None:
    for step in STEPS[:2]:
        master.do(step, "old")
    assert (master.has(), master.runs) == ("mine", True)


def test_the_next_restore_lets_go_of_what_the_last_one_kept(master: Master) -> None:
    master.restore("old")
    master.restore("older")
    assert (master.has(), master.has("paictl-before/member")) == ("older", "old")


def killed(master: Master, monkeypatch: pytest.MonkeyPatch, after: int) -> bool:
    """Restore, and end after some changes of the disk; whether it was ended."""
    left = iter(range(after))

    def counting(change: Any) -> Any:
        def work(*words: Any, **more: Any) -> Any:
            if next(left, None) is None:
                raise KilledError
            return change(*words, **more)

        return work

    with monkeypatch.context() as patch:
        for module, name in (("os", "replace"), ("os", "makedirs"), ("shutil", "rmtree")):
            owner = getattr(master.program, module)
            patch.setattr(owner, name, counting(getattr(owner, name)))
        try:
            master.restore("old")
        except KilledError:
            return True
    return False


@pytest.mark.parametrize("after", range(22))
def test_ended_anywhere_the_same_command_goes_on(master: Master, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    ended = killed(master, monkeypatch, after)
    assert ended or after >= 20, "the restore has fewer changes than that"
    master.restore("old")
    assert (master.has(), master.runs) == ("old", True)
    if ended and master.has("paictl-before/member") != "old":  # ended after its end: it was a restore of its own
        assert master.has("paictl-before/member") == "mine"


@pytest.mark.parametrize("seed", range(20))
def test_the_first_data_are_kept_whatever_is_interrupted_and_begun_anew(master: Master, seed: int) -> None:
    """Steps of two archives in their order, each time up to some step: until one is finished, what was is kept."""
    chance = random.Random(seed)  # noqa: S311
    for _ in range(6):
        archive, stop = chance.choice("ab"), chance.randrange(1, len(STEPS))
        for step in STEPS[:stop]:
            master.do(step, archive)
        kept = {master.has(), master.has("paictl-before/member")}
        assert "mine" in kept
    master.restore("a")
    assert (master.has(), master.has("paictl-before/member"), master.runs) == ("a", "mine", True)


def test_a_snapshot_that_did_not_arrive_whole_is_not_used(master: Master) -> None:
    folder = Path(master.do("begin", "old")["folder"])
    (folder / "snapshot.db").write_text("ol")
    with pytest.raises(master.program.RefusedError, match="is not the snapshot of the archive"):
        master.do("prepare", "old")
    with pytest.raises(master.program.RefusedError, match="another restore was begun"):
        master.do("prepare", "other")


def test_without_prepared_data_nothing_is_exchanged(master: Master) -> None:
    master.do("begin", "old")
    with pytest.raises(master.program.RefusedError, match="nothing was prepared"):
        master.do("swap", "old")
    assert master.has() == "mine"


def test_what_was_noted_as_applied_is_in_doubt_once_etcd_is_older(master: Master) -> None:
    """Else the next plan says that nothing is to be done about what the backup lacks."""
    notes = {
        "network": "mark\n",
        "storage-class": "\n",
        "node-dns": "leaving 17\n",
        "secrets-written": "key2\n",
        "settings.json": '{"kubelet": {"maxPods": 50}, "kube_proxy": {}, "pod_security": {}}',
        "kubeadm-done": "lab",
    }
    for name, text in notes.items():
        (master.notes / name).write_text(text)
    for step in ("begin", "prepare", "stop"):
        master.do(step, "old")
    assert master.noted() == notes
    master.do("swap", "old")
    settings = '{"kubelet": {"maxPods": 50}, "restored": true}'  # kubelet's file is on this machine's disk
    after = {**notes, "network": "restored\n", "secrets-written": "restored\n", "settings.json": settings}
    assert master.noted() == after
    assert (master.notes / "network").stat().st_mode & 0o777 == 0o644


def test_a_look_tells_where_a_restore_stands(master: Master) -> None:
    assert (master.do("look", "")["unfinished"], master.do("look", "")["swapped"]) == ("", False)
    for step in STEPS[:4]:
        master.do(step, "old")
    told = master.do("look", "")
    assert (told["unfinished"], told["swapped"], told["etcd"]["client"]) == ("old", True, "https://127.0.0.1:2379")
    assert json.dumps(told)


def test_a_machine_without_etcd_says_so(master: Master) -> None:
    shutil.rmtree(master.manifests)
    with pytest.raises(master.program.RefusedError, match="runs no etcd of kubeadm"):
        master.do("look", "")


def test_a_save_that_fails_leaves_nothing_beside_the_data(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another master is asked then: what this one had begun once stayed on its disk."""

    def run(*words: str, **_: str) -> str:
        if "health" in words:
            raise master.program.RefusedError("no majority")
        return master.run(*words)

    monkeypatch.setattr(master.program, "run", run)
    with pytest.raises(master.program.RefusedError, match="no majority"):
        master.do("save", "")
    assert [path.name for path in master.data.iterdir()] == ["member"]
