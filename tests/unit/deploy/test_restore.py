"""What a restore refuses, what it says is lost, and the order of its steps over the masters."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from paictl.deploy import backup as saving
from paictl.deploy import restore as restoring
from paictl.deploy.archive import SNAPSHOT, Backup, BackupManifest, Masters, read_backup
from paictl.deploy.backup import PushedConfig, backup, place_of
from paictl.deploy.restore import OtherClusterError, check_name, judge, loss_since
from paictl.deploy.site import DeployError
from paictl.errors import ExitCode, PaictlError
from paictl.remote.inventory import Host
from paictl.remote.kube.client import KubeError, NoAnswerError
from paictl.remote.ssh.link import SshOptions
from paictl.remote.ssh.results import CommandStatus, HostResult
from tests.unit.deploy.preflight.test_checking import deployment

MANIFEST = BackupManifest("prod", "2026-09-01T12:00:00Z", "v1.37.1", "e:3.7", "m1", "ab" * 32, 1234, 56, 7, "0.1")
BACKUP = Backup(Path("backup.tar.gz"), "id", MANIFEST, {SNAPSHOT: "sum"}, 100)


def told(name: str = "m1", **values: Any) -> dict[str, Any]:
    etcd = {"name": name, "peer": f"https://{name}:2380", "data": "/var/lib/etcd"}
    plain = {"etcd": etcd, "kubernetes": "v1.37.1", "authority": "ab" * 32, "unfinished": "", "begun": "", "free": 400}
    return {**plain, **values}


def test_all_masters_become_members() -> None:
    found = judge(BACKUP, {name: told(name) for name in ("m1", "m2", "m3")})
    assert found.members == "m1=https://m1:2380,m2=https://m2:2380,m3=https://m3:2380"
    assert (found.begun, found.notes) == ("", ())


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"kubernetes": "v1.38.0"}, r"the backup is from Kubernetes v1\.37\.1, but m2 has v1\.38\.0"),
        ({"kubernetes": "v1.36.9"}, r"the backup is from Kubernetes v1\.37\.1, but m2 has v1\.36\.9"),
        ({"authority": "cd" * 32}, "m2 has another certificate authority than the saved one"),
        ({"free": 299}, "not enough space"),
    ],
)
def test_one_master_that_does_not_fit_is_enough_to_refuse(values: dict[str, Any], said: str) -> None:
    with pytest.raises(PaictlError, match=said) as caught:
        judge(BACKUP, {"m1": told("m1"), "m2": told("m2", **values)})
    assert caught.value.exit_code is ExitCode.NEGATIVE


def test_another_patch_version_is_a_note() -> None:
    (note,) = judge(BACKUP, {"m1": told(kubernetes="v1.37.4")}).notes
    assert "v1.37.1" in str(note)
    assert "v1.37.4: upgrade afterwards" in str(note)


def test_what_was_begun_is_gone_on_with_and_what_another_has_begun_is_told() -> None:
    found = judge(BACKUP, {"m1": told(unfinished="id", begun="then", free=0), "m2": told("m2", unfinished="other")})
    assert found.begun == "then"
    assert "m2: an unfinished restore from another archive was found" in str(found.notes[0])


def test_a_backup_of_another_cluster_is_refused() -> None:
    check_name(BACKUP, "prod")
    with pytest.raises(OtherClusterError, match="belongs to cluster prod, not lab"):
        check_name(BACKUP, "lab")


class Api:
    """Lists of objects by path; a path that it does not have is answered by 404, and none at all by silence."""

    def __init__(self, **lists: list[tuple[str, str]]) -> None:
        self.lists = lists

    def list(self, path: str) -> Any:
        if not self.lists:
            raise NoAnswerError("silent")
        found = self.lists.get(path.rpartition("/")[2])
        if found is None:
            raise KubeError("no such kind", status=404)
        yield "", [{"metadata": {"name": name, "creationTimestamp": at}} for name, at in found]


def lost(api: Any) -> str:
    return "\n".join(map(str, loss_since(BACKUP, api)))


def test_what_was_made_since_is_lost_and_said() -> None:
    jobs = [("before", "2026-09-01T11:00:00Z"), ("after", "2026-09-02T00:00:00Z")]
    said = lost(Api(paijobs=jobs, nodes=[("m1", "2026-08-01T00:00:00Z"), ("w9", "2026-09-03T00:00:00Z")]))
    assert "since 2026-09-01T12:00:00Z" in said
    assert "1 jobs submitted since, including after" in said
    assert "added since: w9 (they will be added again)" in said
    assert "jobs that" not in lost(Api(nodes=[]))
    for silent in (Api(), None):
        assert "it is unknown" in lost(silent)


class Fleet:
    """Masters that do what they are told, but for `fails`: (verb, host)."""

    def __init__(self, *fails: tuple[str, str]) -> None:
        self.inventory = [Host("m1", "10.0.0.11"), Host("m2", "10.0.0.12")]
        self.fails = fails
        self.done: list[str] = []

    def run(self, line: str, hosts: Any = None, **_: Any) -> dict[str, HostResult]:
        verb = line.split()[3]
        self.done.append(verb)
        return {
            one.name: HostResult(one.name, CommandStatus.DONE, 1, stderr="it is broken\n")
            if (verb, one.name) in self.fails
            else HostResult(one.name, CommandStatus.DONE, 0, '{"free": 1}')
            for one in hosts or self.inventory
        }


def exchange(*fails: tuple[str, str]) -> list[str]:
    fleet: Any = Fleet(*fails)
    try:
        restoring._exchange(Masters(fleet), lambda *_: None)
    except DeployError as error:
        return [*fleet.done, str(error)]
    return list(fleet.done)


def test_no_master_starts_before_all_have_their_data() -> None:
    assert exchange() == ["stop", "swap", "start", "finish"]
    assert exchange(("swap", "m2")) == ["stop", "swap", "m2: it is broken"]


def test_where_one_cannot_be_stopped_the_others_go_on_as_before() -> None:
    assert exchange(("stop", "m2")) == ["stop", "start", "m2: it is broken"]


class Objects:
    """An API that has some objects, by the last part of their paths."""

    def __init__(self, **objects: Any) -> None:
        self.objects = objects

    def get(self, path: str) -> Any:
        name = path.rpartition("/")[2].replace("-", "_")
        if name not in self.objects:
            raise KubeError("not found", status=404, where=path)
        return self.objects[name]


def daemon(**annotations: str) -> Any:
    return {"spec": {"template": {"metadata": {"annotations": annotations}}}}


OURS = {"metadata": {"labels": {"app.kubernetes.io/part-of": "paictl"}}}
MARKED = daemon(**{"paictl.io/manifest": "mark of 2025"})


@pytest.mark.parametrize(
    ("before", "objects", "noted"),
    [
        ({}, {}, {"storage-class": "", "node-dns": ""}),
        ({"storage-class": "restored", "node-dns": "restored"}, {}, {"storage-class": "", "node-dns": ""}),
        (
            {"storage-class": ""},
            {"local_path": OURS, "node_dns": MARKED},
            {"storage-class": "restored", "node-dns": "mark of 2025"},
        ),
        ({}, {"local_path": {"metadata": {}}, "node_dns": daemon()}, {"storage-class": "", "node-dns": "restored"}),
        ({"node-dns": "leaving 17"}, {"node_dns": MARKED}, {"storage-class": "", "node-dns": "leaving 17"}),
        ({"node-dns": "leaving 17"}, {}, {"storage-class": "", "node-dns": ""}),
    ],
)
def test_the_first_master_notes_what_the_restored_cluster_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: dict[str, str], objects: Any, noted: dict[str, str]
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in before.items():
        (folder / name).write_text(f"{text}\n")

    class Local:
        """Runs the script here instead of on a master."""

        def __init__(self, inventory: Any, _: Any) -> None:
            self.names = [host.name for host in inventory]

        def __enter__(self) -> Local:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def run(self, line: str, *, manner: Any) -> dict[str, HostResult]:
            assert manner.sudo
            assert self.names == ["m1"]
            script = line.replace("/var/lib/paictl", str(folder))
            code = subprocess.run(["sh", "-c", script], check=False).returncode
            return {"m1": HostResult("m1", CommandStatus.DONE, code)}

    monkeypatch.setattr(restoring, "Fleet", Local)
    lists = tmp_path / "lists"
    lists.mkdir()
    api: Any = Objects(**objects)
    restoring.correct_notes(deployment(lists, masters=3), api, SshOptions())
    assert {path.name: path.read_text().strip() for path in folder.iterdir()} == noted
    shutil.rmtree(folder)
    with pytest.raises(DeployError, match="m1"):
        restoring.correct_notes(deployment(lists, masters=3), api, SshOptions())


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """Masters of which the first cannot save."""

    class Saving:
        asked: list[tuple[str, ...]] = []  # noqa: RUF012
        status = {"revision": 12, "totalKey": 3}  # noqa: RUF012

        def __init__(self, inventory: Any, _: Any) -> None:
            self.inventory = inventory

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(saving, "Fleet", Saving)
    return Saving


def test_a_backup_comes_from_the_first_master_that_can(
    fleet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []
    answer = {**told(), "status": fleet.status, "files": ["/x/snapshot.db", "/x/pki.tar"]}
    answer["etcd"] = {**answer["etcd"], "image": "e:3.7"}

    def ask(_: Any, verb: str, hosts: Any) -> Any:
        (host,) = hosts
        asked.append((verb, host.name))
        bad = HostResult(host.name, CommandStatus.UNREACHABLE, message="silent")
        return ({}, {host.name: bad}) if host.name == "m1" else ({host.name: answer}, {})

    def download(_: Any, source: str, folder: Path, hosts: Any, **__: Any) -> Any:
        path = folder / hosts[0].name / Path(source).name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        return {hosts[0].name: HostResult(hosts[0].name, CommandStatus.DONE, 0)}

    monkeypatch.setattr(Masters, "ask", ask)
    fleet.download = download
    lists = tmp_path / "lists"
    lists.mkdir()
    made = backup(
        deployment(lists, masters=3),
        SshOptions(),
        tmp_path / "b.tar.gz",
        PushedConfig(4, {"layout.yaml": "x: 1\n"}),
        lambda: datetime(2026, 9, 1, 12, tzinfo=UTC),
        lambda *_: None,
    )
    assert asked == [("save", "m1"), ("save", "m2"), ("tidy", "m2")]
    assert read_backup(made.path) == made
    about = made.manifest
    assert (about.master, about.revision, about.keys, about.configuration) == ("m2", 12, 3, 4)
    assert set(made.files) == {SNAPSHOT, "pki.tar", "configuration/layout.yaml"}
    assert {path.name for path in tmp_path.iterdir()} == {"lists", "b.tar.gz"}


def test_where_a_backup_goes(tmp_path: Path) -> None:
    now = datetime(2026, 9, 1, 12, tzinfo=UTC)
    assert place_of(tmp_path, "prod", now) == tmp_path / "paictl-prod-20260901T120000Z.tar.gz"
    assert place_of(tmp_path / "mine", "prod", now) == tmp_path / "mine"
    (tmp_path / "mine").touch()
    with pytest.raises(PaictlError, match="already exists"):
        place_of(tmp_path / "mine", "prod", now)
    with pytest.raises(PaictlError, match="no such folder"):
        place_of(tmp_path / "absent/mine", "prod", now)


def test_a_node_that_only_the_backup_calls_ready_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease has to be renewed, and a kubelet whose node the backup does not know starts again."""
    made = deployment(tmp_path, masters=1, workers=2)
    names = [one.name for one in made.machines]
    renewals = iter([dict.fromkeys(names, "old"), {**dict.fromkeys(names, "new"), names[2]: "old"}])
    ready: dict[str, Any] = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    restarted: list[str] = []

    class Api:
        def list(self, path: str) -> Any:
            if path.endswith("leases"):
                found = next(renewals, dict.fromkeys(names, "new"))
                yield "", [{"metadata": {"name": name}, "spec": {"renewTime": at}} for name, at in found.items()]
                return
            known = [*names[:2], *(names[2:] if restarted else []), "gone"]
            yield "", [{"metadata": {"name": name}, **ready} for name in known]

    class Restarting:
        def __init__(self, inventory: Any, _: Any) -> None:
            self.names = [one.name for one in inventory]

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def run(self, command: str, **_: Any) -> None:
            assert command == "systemctl restart kubelet"
            restarted.extend(self.names)

    monkeypatch.setattr(restoring, "Fleet", Restarting)
    monkeypatch.setattr(restoring, "_POLL", 0)
    api: Any = Api()
    assert restoring.settle(made, api, SshOptions(), lambda *_: None) == ("gone",)
    assert restarted == names[2:]
    assert next(renewals, None) is None  # it did look a second time
    monkeypatch.setattr(restoring, "READY_SECONDS", -1)
    renewals = iter([dict.fromkeys(names, "new")])
    with pytest.raises(DeployError, match="no answer yet") as caught:
        restoring.settle(made, api, SshOptions(), lambda *_: None)
    assert caught.value.exit_code is ExitCode.PARTIAL


def test_a_snapshot_goes_to_the_place_of_each_master_and_who_lacks_it_is_named(tmp_path: Path) -> None:
    class Uploading(Fleet):
        def upload(self, source: Path, place: str, *, hosts: list[Host], mode: int, **_: Any) -> dict[str, HostResult]:
            assert (source, mode) == (tmp_path / "snapshot.db", 0o600), "the cluster's secrets are in it"
            self.done += [f"{one.name}:{place}" for one in hosts]
            failed = {one.name: 1 if ("upload", one.name) in self.fails else 0 for one in hosts}
            return {name: HostResult(name, CommandStatus.DONE, code, stderr="full\n") for name, code in failed.items()}

    fleet: Any = Uploading()
    Masters(fleet).upload(tmp_path / "snapshot.db", lambda name: f"/x/{name}.db")
    assert fleet.done == ["m1:/x/m1.db", "m2:/x/m2.db"]
    lacking: Any = Uploading(("upload", "m2"))
    with pytest.raises(DeployError, match="m2: full"):
        Masters(lacking).upload(tmp_path / "snapshot.db", lambda _: "/x/snapshot.db")
