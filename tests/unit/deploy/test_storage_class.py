"""`deploy.storage_class`: what is applied, when it is planned, what is refused, and when it counts as running."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from paictl.config.making.generate import read_inputs
from paictl.deploy import addons
from paictl.deploy.addons import DefaultStorage
from paictl.deploy.artifacts import Artifact, ArtifactKind, Artifacts
from paictl.deploy.desired import Desired, desired_of
from paictl.deploy.facts import HostFacts
from paictl.deploy.installing import manifest_mark
from paictl.deploy.site import DeployError
from paictl.deploy.storage_class import (
    IMAGE,
    StorageClass,
    manifest_of,
    problem_with,
    volumes_of,
)
from paictl.deploy.verifying import storage_findings
from paictl.errors import PaictlError
from paictl.remote.kube.client import KubeError
from tests.unit.deploy.test_inventory import made

WANTED = StorageClass("/srv/volumes", "Retain")


class Api:
    """An API with the objects of the class, or without, and some volumes."""

    def __init__(self, status: dict[str, int] | None = None, volumes: tuple[dict[str, Any], ...] = ()) -> None:
        self.status, self.volumes, self.owner = status, volumes, "paictl"

    def get(self, path: str) -> dict[str, Any]:
        if self.status is None:
            raise KubeError("not found", status=404, where=path)
        labels = {"app.kubernetes.io/part-of": self.owner} if self.owner else {}
        return {"metadata": {"generation": 2, "labels": labels}, "status": self.status}

    def list(self, path: str) -> list[tuple[str, tuple[dict[str, Any], ...]]]:
        assert path == "/api/v1/persistentvolumes"
        return [("1", self.volumes)]


RUNS = {"observedGeneration": 2, "updatedReplicas": 1, "availableReplicas": 1}


def volume(name: str, claim: str = "", kind: str = "local-path") -> dict[str, Any]:
    """A volume, bound to a claim if that is given."""
    space, _, other = claim.partition("/")
    spec = {"storageClassName": kind, **({"claimRef": {"namespace": space, "name": other}} if claim else {})}
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Bound" if claim else "Released"}}


def site(tmp_path: Path, wanted: StorageClass | None, applied: str, played: list[Any] | None = None) -> Any:
    """A cluster whose first master has applied a manifest with that mark."""
    deployment = made(tmp_path)
    deployment = replace(deployment, settings=replace(deployment.settings, storage_class=wanted))
    values = {"storage": applied, "differences": {}}
    return SimpleNamespace(
        desired=SimpleNamespace(deployment=deployment),
        machines=deployment.machines,
        timeout=0.0,
        facts={one.name: HostFacts(one, values) for one in deployment.machines},
        play=lambda *given: (played if played is not None else []).append(given),
    )


def planned(made: Any) -> dict[str, list[str]]:
    """What the phase would do, by machine."""
    phase = DefaultStorage(made)
    return {name: found for name, facts in made.facts.items() if (found := phase.changes(facts))}


def test_the_manifest_says_what_config_yaml_says_and_pins_one_image() -> None:
    documents = [one for one in yaml.safe_load_all(manifest_of(WANTED)) if one]
    kinds = {(one["kind"], one["metadata"]["name"]): one for one in documents}
    found = kinds["StorageClass", "local-path"]
    assert found["reclaimPolicy"] == "Retain"
    assert found["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    data = kinds["ConfigMap", "local-path-config"]["data"]
    assert json.loads(data["config.json"])["nodePathMap"][0]["paths"] == ["/srv/volumes"]
    pods = [kinds["Deployment", "local-path-provisioner"]["spec"]["template"], yaml.safe_load(data["helperPod.yaml"])]
    assert [one["spec"]["containers"][0]["image"] for one in pods] == [IMAGE, IMAGE]
    assert "@" not in manifest_of(WANTED)
    assert manifest_of(None) == ""


def test_it_is_planned_on_the_first_master_where_it_differs(tmp_path: Path) -> None:
    mark = manifest_mark(manifest_of(WANTED))
    assert planned(site(tmp_path, WANTED, "")) == {"m1": ["storage class local-path: /srv/volumes, Retain"]}
    assert planned(site(tmp_path, WANTED, mark)) == {}
    assert planned(site(tmp_path, StorageClass(), mark)) == {
        "m1": ["storage class local-path: /opt/local-path-provisioner, Delete"]
    }
    assert planned(site(tmp_path, None, mark)) == {"m1": ["delete storage class local-path"]}
    assert planned(site(tmp_path, None, "")) == {}
    assert planned(site(tmp_path, WANTED, "restored")) == planned(site(tmp_path, WANTED, ""))
    assert planned(site(tmp_path, None, "restored")) == planned(site(tmp_path, None, mark))


def test_a_class_that_volumes_need_is_not_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[Any] = []
    api = Api(RUNS, (volume("a", "db/data"), volume("b"), volume("c", "x/y", "other")))
    monkeypatch.setattr(addons, "api", lambda _: api)
    with pytest.raises(DeployError, match="storage class local-path still has volumes: b, db/data"):
        DefaultStorage(site(tmp_path, None, "mark", played)).run(lambda *_: None)
    assert played == []
    api.volumes = (volume("c", "x/y", "other"),)
    DefaultStorage(site(tmp_path, None, "mark", played)).run(lambda *_: None)
    ((name, _, machines, variables),) = played
    assert (name, [one.name for one in machines]) == ("storage", ["m1"])
    objects = variables.pop("paictl_objects")
    assert variables == {"paictl_wanted": False, "paictl_mark": "", "paictl_class": "local-path"}
    assert "name: local-path-provisioner" in objects  # a master that was set up anew does not have them


@pytest.mark.parametrize("owner", ["", "somebody"])
def test_a_class_of_somebody_else_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str) -> None:
    api, played = Api(RUNS), list[Any]()
    api.owner = owner
    monkeypatch.setattr(addons, "api", lambda _: api)
    said = "storageclass local-path, namespace local-path-storage: already exists, and was not created by paictl"
    with pytest.raises(DeployError, match=said):
        DefaultStorage(site(tmp_path, WANTED, "", played)).run(lambda *_: None)
    assert played == []


def test_a_provisioner_that_does_not_start_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api({**RUNS, "availableReplicas": 0})
    monkeypatch.setattr(addons, "api", lambda _: api)
    played: list[Any] = []
    with pytest.raises(DeployError, match="the provisioner of storage class local-path is not running"):
        DefaultStorage(site(tmp_path, WANTED, "", played)).run(lambda *_: None)
    api.status = RUNS
    DefaultStorage(site(tmp_path, WANTED, "", played)).run(lambda *_: None)
    assert len(played) == 2


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (None, "the objects of storage class local-path are missing"),
        ({**RUNS, "observedGeneration": 1}, "the provisioner of storage class local-path is not running"),
        ({**RUNS, "updatedReplicas": 0}, "the provisioner of storage class local-path is not running"),
        (RUNS, ""),
    ],
)
def test_a_provisioner_runs_when_its_newest_pod_does(status: dict[str, int] | None, problem: str) -> None:
    api: Any = Api(status)
    assert problem_with(api) == problem
    deployment: Any = SimpleNamespace(settings=SimpleNamespace(storage_class=WANTED))
    (found,) = storage_findings(api, deployment)
    assert (found.verdict.value, found.message) == ("failed" if problem else "ok", problem)
    deployment.settings.storage_class = None
    assert storage_findings(api, deployment) == ()


def test_volumes_are_told_by_their_claims() -> None:
    api: Any = Api(RUNS, (volume("a", "db/data"), volume("b"), volume("c", "x/y", "other")))
    assert volumes_of(api) == ["b", "db/data"]


HEAD = "user: deploy\npassword: kelp\ndocker_image_tag: v1.8.1\ndeploy:\n"


def lines_with_problems(tmp_path: Path, written: str) -> set[tuple[str, int]]:
    """File and line of all problems of a config.yaml with such a storage class."""
    (tmp_path / "master.csv").write_text("m1,10.77.0.11\n")
    (tmp_path / "worker.csv").write_text("w1,10.77.0.12\n")
    (tmp_path / "config.yaml").write_text(f"{HEAD}  storage_class: {written}\n")
    inputs = read_inputs(*(str(tmp_path / name) for name in ("master.csv", "worker.csv", "config.yaml")))
    found = [one for one in inputs.report.problems if "storage_class" in one.message]
    return {(Path(one.place.path).name, one.place.line) for one in found}


@pytest.mark.parametrize(
    "written",
    [
        "local-path",
        "{path: /srv/volumes}",
        "{provisioner: nfs}",
        "{provisioner: local-path, reclaim_policy: Keep}",
        "{provisioner: local-path, folder: /srv/volumes}",
        *(
            f"{{provisioner: local-path, path: {path}}}"
            for path in ("/", "/srv", "srv/volumes", "/srv/../etc", "/srv/a b")
        ),
    ],
)
def test_what_is_wrong_is_reported_with_its_place(tmp_path: Path, written: str) -> None:
    assert lines_with_problems(tmp_path, written) == {("config.yaml", 5)}


@pytest.mark.parametrize(
    "path", ["/opt/local-path-provisioner", "/srv/volumes", "/var/lib/volumes", "/data/v.1/x-1", "/etcetera/x"]
)
def test_what_is_right_is_taken(tmp_path: Path, path: str) -> None:
    assert lines_with_problems(tmp_path, f"{{provisioner: local-path, path: {path}}}") == set()


@pytest.mark.parametrize("path", ["/etc/volumes", "/usr/lib", "/var/lib/kubelet", "/var/lib/kubelet/pods"])
def test_a_folder_of_the_system_is_refused_with_its_place(tmp_path: Path, path: str) -> None:
    assert lines_with_problems(tmp_path, f"{{provisioner: local-path, path: {path}}}") == {("config.yaml", 5)}


def test_offline_machines_need_its_image_among_the_artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Desired, "programs", lambda _: [])
    rows = (Artifact("kubeadm", ArtifactKind.BINARY, "v1.37.1", "amd64", "", "", "kubeadm"),)
    deployment = site(tmp_path, WANTED, "").desired.deployment
    deployment = replace(deployment, settings=replace(deployment.settings, offline=True))
    with pytest.raises(PaictlError, match="storage_class needs images that are not among the artifacts"):
        desired_of(deployment, Artifacts(tmp_path, rows))
    online = replace(deployment, settings=replace(deployment.settings, offline=False))
    assert desired_of(online, Artifacts(tmp_path, rows)).deployment == online
