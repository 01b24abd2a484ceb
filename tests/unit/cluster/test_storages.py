"""Named storages: the list and its rules, the same on every kind of cluster, and the objects in Kubernetes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.cluster.embedded.sidefiles import EmbeddedStorages
from paictl.cluster.kubernetes.storages import CLAIMS, VOLUMES, StorageStore, read_storages
from paictl.cluster.storages import (
    Credentials,
    Storage,
    check_credentials,
    granted,
    mounts_for,
    storages_from,
    storages_text,
)
from paictl.cluster.values import ClusterError, ConflictError
from paictl.remote.kube.client import KubeError
from paictl.workload.fields import JobError
from paictl.workload.mounts import StorageMount
from tests.unit.cluster.fakekube import FakeKube

NFS = Storage("data", "nfs", "10.0.0.9:/data", ("vc1",), options=("nfsvers=4.1",))
SMB = Storage("home", "smb", "//files/home", ("*",), own_folders=True)
SECRET = "/api/v1/namespaces/paictl-system/secrets/storage-home"  # noqa: S105 - a path
DRIVER = "/apis/storage.k8s.io/v1/csidrivers/smb.csi.k8s.io"

names = st.sampled_from(["a", "b", "c"])
vcs = st.sampled_from(["vc1", "vc2", "*"])
storages = st.lists(
    st.builds(
        Storage,
        names,
        st.just("nfs"),
        st.just("h:/x"),
        st.lists(vcs, max_size=2).map(tuple),
        st.sampled_from(["", "/data", "/mnt/a"]),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
    max_size=3,
    unique_by=lambda one: one.name,
)
wishes = st.lists(
    st.builds(
        StorageMount, st.sampled_from(["", "a", "b", "z"]), st.just("x"), st.sampled_from(["", "/data"]), st.booleans()
    ),
    max_size=3,
)


@given(storages, wishes, st.sampled_from(["vc1", "vc2"]))
def test_nobody_gets_what_is_not_granted_or_more_than_read_only(
    known: list[Storage], wished: list[StorageMount], vc: str
) -> None:
    try:
        mounts = mounts_for(wished, vc, known, "train")
    except JobError as error:
        assert error.where == "x"  # noqa: PT017 - most examples are no error
        return
    assert len({mount.path for mount in mounts}) == len(mounts)
    for mount in mounts:
        assert mount.storage in known
        assert vc in mount.storage.vcs or "*" in mount.storage.vcs
        assert mount.read_only or not mount.storage.read_only
        assert mount.own_folder or not mount.storage.own_folders
        assert any(wish.name == mount.storage.name or (not wish.name and mount.storage.default) for wish in wished)


@given(storages)
def test_the_list_comes_back_whole(known: list[Storage]) -> None:
    assert list(storages_from(storages_text(known))) == sorted(known, key=lambda one: one.name)


def test_grants_are_added_and_revoked_once() -> None:
    (after,) = granted((NFS,), "data", ["vc2", "vc2"], ["vc1"])
    assert after.vcs == ("vc2",)
    with pytest.raises(ClusterError, match="no storage 'dat'"):
        granted((NFS,), "dat", ["vc2"], [])


@pytest.mark.parametrize("said", ["{", "[1]", '[{"name": "a"}]', '[{"name": "A", "kind": "nfs", "address": "x"}]'])
def test_a_damaged_list_is_an_error_with_its_place(said: str, tmp_path: Path) -> None:
    (tmp_path / "storages.json").write_text(said, encoding="utf-8")
    with pytest.raises(ClusterError):
        EmbeddedStorages(tmp_path).read()
    kube = FakeKube({"/api/v1/namespaces/paictl-system/configmaps/paictl-storages": {"data": {"storages.json": said}}})
    with pytest.raises(ClusterError) as error:
        read_storages(kube)
    assert str(error.value.where).startswith("configmap paictl-system/paictl-storages")


@pytest.fixture
def kube() -> FakeKube:
    spaces = {f"/api/v1/namespaces/{name}": {"metadata": {"name": name}} for name in ("paictl-system", "paictl-jobs")}
    return FakeKube(spaces)


def test_an_export_gets_a_volume_bound_to_its_claim(kube: FakeKube) -> None:
    StorageStore(kube).add(NFS, None)
    volume = kube.objects[f"{VOLUMES}/paictl-storage-data"]["spec"]
    claim = kube.objects[f"{CLAIMS}/storage-data"]["spec"]
    assert volume["nfs"] == {"server": "10.0.0.9", "path": "/data", "readOnly": False}
    assert volume["claimRef"] == {"namespace": "paictl-jobs", "name": "storage-data"}
    assert (volume["mountOptions"], volume["persistentVolumeReclaimPolicy"]) == (["nfsvers=4.1"], "Retain")
    assert (claim["volumeName"], claim["storageClassName"]) == ("paictl-storage-data", "")
    assert read_storages(kube) == (NFS,)


def test_the_password_is_in_a_secret_of_the_services_alone(kube: FakeKube) -> None:
    kube.objects[DRIVER] = {"metadata": {"name": "smb.csi.k8s.io"}}
    StorageStore(kube).add(SMB, Credentials("pai", "geheim-7", "LAB"))
    assert kube.objects[SECRET]["stringData"] == {"username": "pai", "password": "geheim-7", "domain": "LAB"}
    others = {path: one for path, one in kube.objects.items() if path != SECRET}
    assert "geheim-7" not in json.dumps(others)
    assert base64.b64encode(b"geheim-7").decode() not in json.dumps(others)
    assert "geheim-7" not in repr(Credentials("pai", "geheim-7"))
    source = kube.objects[f"{VOLUMES}/paictl-storage-home"]["spec"]["csi"]
    assert source["nodeStageSecretRef"] == {"name": "storage-home", "namespace": "paictl-system"}
    StorageStore(kube).remove("home")
    assert [path for path in kube.objects if "storage-home" in path] == []


words = st.text(st.sampled_from("ab,= \n\u00a0é"), max_size=5)
"""With all that mount options are sensitive to."""


def staged(kube: FakeKube) -> list[str]:
    """The options that `mount -t cifs` gets, as csi-driver-smb makes them of a volume and its Secret.

    A stand-in for NodeStageVolume of pkg/smb/nodeserver.go on Linux, and for mount-utils, which joins them.
    """
    volume, words = kube.objects[f"{VOLUMES}/paictl-storage-home"]["spec"], kube.objects[SECRET]["stringData"]
    username, password, domain = (words.get(name, "").strip() for name in ("username", "password", "domain"))
    options = [*volume["mountOptions"], *([f"domain={domain}"] if domain else [])]
    sensitive = [f"username={username}", f"password={password}"]
    return ",".join([*options, *sensitive]).split(",")  # as mount.cifs reads them


@given(
    st.builds(Credentials, words, words, words),
    st.lists(st.sampled_from(["vers=3.1.1", "uid=1000", "serverino", "ro"]), max_size=3, unique=True),
)
def test_the_share_is_opened_with_exactly_the_account_that_was_given(account: Credentials, options: list[str]) -> None:
    """Whatever is accepted arrives unchanged and adds no option."""
    try:
        check_credentials(account)
    except ClusterError:
        return
    spaces = {f"/api/v1/namespaces/{name}": {"metadata": {"name": name}} for name in ("paictl-system", "paictl-jobs")}
    kube = FakeKube({**spaces, DRIVER: {"metadata": {"name": "smb.csi.k8s.io"}}})
    StorageStore(kube).add(replace(SMB, options=tuple(options)), account)
    safe = [] if "serverino" in options else ["noserverino"]
    domain = [f"domain={account.domain}"] if account.domain else []
    told = [*options, *safe, *domain, f"username={account.username}", f"password={account.password}"]
    assert staged(kube) == told


def test_a_share_is_mounted_with_the_mode_and_the_source_that_were_given(kube: FakeKube) -> None:
    kube.objects[DRIVER] = {"metadata": {"name": "smb.csi.k8s.io"}}
    StorageStore(kube).add(replace(SMB, read_only=True, options=("noserverino", "vers=3.0")), Credentials("u", "p"))
    spec = kube.objects[f"{VOLUMES}/paictl-storage-home"]["spec"]
    assert spec["mountOptions"] == ["noserverino", "vers=3.0"]
    assert (spec["csi"]["readOnly"], spec["csi"]["volumeAttributes"]) == (True, {"source": "//files/home"})
    assert spec["claimRef"] == {"namespace": "paictl-jobs", "name": "storage-home"}
    assert "domain" not in kube.objects[SECRET]["stringData"]


@pytest.mark.parametrize("cut", range(1, 5))
def test_what_is_refused_half_way_leaves_nothing(kube: FakeKube, cut: int) -> None:
    before = dict(kube.objects)
    kube.objects[DRIVER] = {"metadata": {"name": "smb.csi.k8s.io"}}
    begun = len(kube.requests)

    def refuse(number: int) -> None:
        posts = sum(method == "POST" for method, _ in kube.requests[begun:])
        if kube.requests[number][0] == "POST" and posts == cut:
            raise KubeError("forbidden", status=403)

    kube.before = refuse
    with pytest.raises(KubeError):
        StorageStore(kube).add(SMB, Credentials("pai", "geheim-7"))
    assert {path for path in kube.objects if path != DRIVER} == set(before)


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        (SMB, "the CSI driver smb.csi.k8s.io is missing"),
        (Storage("x", "pvc", "nowhere", ("vc1",)), "no PersistentVolumeClaim 'nowhere'"),
    ],
)
def test_what_pods_could_not_mount_is_refused(kube: FakeKube, storage: Storage, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        StorageStore(kube).add(storage, Credentials("u", "p"))
    assert read_storages(kube) == ()


def test_a_claim_of_ones_own_stays(kube: FakeKube) -> None:
    kube.objects[f"{CLAIMS}/mine"] = {"metadata": {"name": "mine"}}
    store = StorageStore(kube)
    store.add(Storage("x", "pvc", "mine", ("vc1",)), None)
    with pytest.raises(ConflictError):
        store.add(Storage("x", "nfs", "h:/a", ("vc1",)), None)
    assert store.grant("x", ["vc2"], ["vc1"]).vcs == ("vc2",)
    store.remove("x")
    assert f"{CLAIMS}/mine" in kube.objects
    assert read_storages(kube) == ()


def test_two_who_change_the_list_at_once_lose_nothing(kube: FakeKube) -> None:
    StorageStore(kube).add(NFS, None)
    done: list[Callable[[], Storage]] = [lambda: StorageStore(kube.again()).grant("data", ["vc3"], [])]

    def interfere(number: int) -> None:
        if kube.requests[number][0] == "PUT" and done:
            done.pop()()

    kube.before = interfere
    assert StorageStore(kube).grant("data", ["vc2"], []).vcs == ("vc1", "vc3", "vc2")


@pytest.mark.parametrize("own", [(), (SMB,)])
def test_a_user_does_not_learn_which_storages_other_virtual_clusters_have(own: tuple[Storage, ...]) -> None:
    answers = []
    for known in ((NFS, *own), own):
        with pytest.raises(JobError) as refused:
            mounts_for([StorageMount("data", "x", "", False)], "vc2", known, "train")
        answers.append((refused.value.message, refused.value.hint, refused.value.where))
    assert answers[0] == answers[1]
    assert answers[0][0] == "virtual cluster vc2 has no storage 'data'"
