"""Versions of the configuration in a Kubernetes cluster: whole or not at all, secrets apart, nothing of others lost."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.cluster.interface import ClusterError, ConfigVersion, ConflictError, UnreachableError
from paictl.cluster.kubernetes import store
from paictl.cluster.kubernetes import store as heads
from paictl.cluster.kubernetes.cluster import KubernetesCluster
from paictl.cluster.kubernetes.store import pack, unpack
from paictl.config.pushing.push import seal_files, secrets_of
from paictl.remote.kube.client import KubeError, NoAnswerError
from tests.unit.cluster.fakekube import FakeKube

SERVICES = "services-configuration.yaml"
SECRET = "hunter2-{}-correct-horse"  # noqa: S105 - of a test


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cheap seals, and objects so small that every version needs several."""
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    monkeypatch.setattr(store, "ROOM", 1000)


class KilledError(BaseException):
    """kill -9: nothing of ours may run any more."""


def files_of(word: str) -> dict[str, str]:
    return {
        SERVICES: f"rest-server:\n  jwt-secret: {SECRET.format(word)}\n  api-port: 9186\n",
        "layout.yaml": f"machine-list: []\n# {word}\n" + "".join(f"# line {n}\n" for n in range(200)),
    }


def push(kube: FakeKube, word: str, base: int | None = None) -> ConfigVersion:
    """As the command line pushes: sealed, with what the seals stand for."""
    files = files_of(word)
    before = {version.number: version.files for version in KubernetesCluster(kube.again(), "pai").configurations()}
    sealed = seal_files(files, before.get(max(before, default=0)))
    return KubernetesCluster(kube, "pai").push(sealed, word, base=base, secrets=secrets_of(files, sealed))


def read(kube: FakeKube) -> dict[int, str]:
    """What another process reads, by number; each version has to be whole, and its secrets where they belong."""
    found = {}
    for version in KubernetesCluster(kube.again(), "pai").configurations():
        assert version.files["layout.yaml"] == files_of(version.message)["layout.yaml"]
        assert version.files[SERVICES].endswith("api-port: 9186\n")
        found[version.number] = version.message
    text = json.dumps(kube.of("configmaps"))
    assert "hunter2" not in text
    assert base64.b64encode(b"str:hunter2").decode()[:12] not in text
    return found


def test_a_version_says_who_pushed_it() -> None:
    kube = FakeKube()
    for user in ("ann", "paictl:bob", ""):
        kube.user = user
        assert push(kube, f"by {user}").author == user
    rows = [(version.message, version.author) for version in KubernetesCluster(kube.again(), "pai").configurations()]
    assert rows == [("by ann", "ann"), ("by paictl:bob", "paictl:bob"), ("by ", "")]


def test_a_version_of_a_paictl_that_noted_no_author_is_read() -> None:
    kube = FakeKube()
    push(kube, "old")
    data = kube.of("configmaps")["paictl-configuration"]["data"]
    data["versions"] = json.dumps(
        [{name: value for name, value in row.items() if name != "author"} for row in json.loads(data["versions"])]
    )
    assert [version.author for version in KubernetesCluster(kube.again(), "pai").configurations()] == [""]


def requests_of_a_push() -> int:
    kube = FakeKube()
    push(kube, "one")
    done = kube.again()
    push(done, "two")
    return len(done.requests)


def test_a_push_that_is_killed_at_any_request_is_there_whole_or_not_at_all() -> None:
    for at in range(requests_of_a_push()):
        for side in ("before", "after"):
            kube = FakeKube()
            push(kube, "old")
            dying = kube.again()

            def die(number: int, at: int = at) -> None:
                if number == at:
                    raise KilledError

            setattr(dying, side, die)
            with pytest.raises(KilledError):
                push(dying, "new")
            assert read(kube) in ({1: "old"}, {1: "old", 2: "new"}), (at, side)
            last = push(kube.again(), "next")
            assert read(kube)[last.number] == "next"
            named = {name for name in kube.of("configmaps") if name != "kube-root-ca.crt"}
            assert {name.split("-")[2] for name in named if name.count("-") > 1} == {str(n) for n in read(kube)}
            assert len({name.rsplit("-", 1)[0] for name in named if name.count("-") > 1}) == len(read(kube))
            assert len(kube.of("secrets")) == len(read(kube))


def test_whoever_comes_between_at_any_request_one_of_two_wins_and_nothing_is_lost() -> None:
    for at in range(requests_of_a_push()):
        kube = FakeKube()
        push(kube, "old")
        slow, fast = _race(kube, at)
        assert sorted((slow, fast)) == ["conflict", "won"], at
        assert read(kube) == {1: "old", 2: "slow" if slow == "won" else "fast"}


def _race(kube: FakeKube, at: int) -> tuple[str, str]:
    """What becomes of a push, and of another one that is made whole before its request number `at`."""
    slow = kube.again()
    outcomes: list[str] = []

    def come_between(number: int) -> None:
        if number == at:
            outcomes.append(_won(lambda: push(kube.again(), "fast", base=1)))

    slow.before = come_between
    return _won(lambda: push(slow, "slow", base=1)), outcomes[0]


def _won(act: Callable[[], object]) -> str:
    try:
        act()
    except ConflictError:
        return "conflict"
    return "won"


def test_a_push_over_whatever_is_there_waits_its_turn() -> None:
    kube = FakeKube()
    push(kube, "old")
    slow = kube.again()

    def come_between(number: int) -> None:
        if number == 4:
            push(kube.again(), "fast")

    slow.before = come_between
    assert push(slow, "slow", base=None).number == 3
    assert read(kube) == {1: "old", 2: "fast", 3: "slow"}


def test_what_another_push_is_just_writing_is_never_collected() -> None:
    kube = FakeKube()
    push(kube, "one")
    writing = kube.again()

    def die(number: int) -> None:
        if writing.requests[number][0] == "PUT":
            raise KilledError

    writing.before = die
    with pytest.raises(KilledError):
        push(writing, "underway")
    underway = {name for name in kube.of("configmaps") if name.startswith("paictl-configuration-2-")}
    assert len(underway) > 1
    cluster = KubernetesCluster(kube.again(), "pai")
    cluster._pusher._collect(cluster._store.head() or heads.Head("pai"))  # as the push before it does, a moment later
    assert underway <= set(kube.of("configmaps"))
    push(kube, "two")
    assert not underway & set(kube.of("configmaps"))


def test_secrets_stay_with_their_versions_and_come_back_with_them() -> None:
    kube = FakeKube()
    first = push(kube, "one")
    push(kube, "two")
    cluster = KubernetesCluster(kube.again(), "pai")
    again = cluster.push(first.files, "rolled back")  # no values given: the cluster has them, in an older version
    stored = [one["data"] for name, one in kube.of("secrets").items() if name.split("-")[2] == str(again.number)]
    assert [base64.b64decode(value).decode() for value in stored[0].values()] == [f"str:{SECRET.format('one')}"]


def test_a_seal_that_nobody_can_open_is_refused_before_anything_is_written() -> None:
    kube = FakeKube()
    push(kube, "one")
    before = json.dumps(kube.objects)
    foreign = seal_files(files_of("elsewhere"))
    with pytest.raises(ClusterError) as caught:
        KubernetesCluster(kube, "pai").push(foreign, "pulled from another cluster")
    assert SERVICES in str(caught.value)
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"
    assert json.dumps(kube.objects) == before


def test_what_is_too_large_is_refused_before_anything_is_sent() -> None:
    kube = FakeKube()
    cluster = KubernetesCluster(kube, "pai")
    for files, message in (
        ({"layout.yaml": "a" * (store.MOST + 1)}, "m"),
        ({"layout.yaml": "\ud800"}, "m"),
        ({"layout.yaml": "a"}, "m" * 1001),
    ):
        with pytest.raises(ClusterError):
            cluster.push(files, message)
    assert {method for method, _ in kube.requests} <= {"GET"}
    assert not kube.of("configmaps")


def test_history_is_bounded_and_numbers_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "KEPT", 3)
    kube = FakeKube()
    for number in range(1, 7):
        assert push(kube, f"v{number}").number == number
    assert read(kube) == {4: "v4", 5: "v5", 6: "v6"}
    assert len(kube.of("secrets")) == 3
    with pytest.raises(ClusterError, match="no version 1"):
        KubernetesCluster(kube, "pai").configuration(1)
    monkeypatch.setattr(heads, "KEPT_BYTES", 3000)
    push(kube, "v7")
    assert list(read(kube)) == [6, 7]


@pytest.mark.parametrize("gone", [NoAnswerError("broken off"), KubeError("etcd is slow", status=500)])
def test_an_answer_that_never_came_is_looked_up(gone: Exception) -> None:
    kube = FakeKube()
    push(kube, "one")

    def lose(side: str) -> FakeKube:
        unlucky = kube.again()

        def drop(number: int) -> None:
            if unlucky.requests[number][0] == "PUT":
                raise gone

        setattr(unlucky, side, drop)
        return unlucky

    assert push(lose("after"), "two").number == 2, "it was stored, only the answer was lost"
    with pytest.raises(UnreachableError) as caught:
        push(lose("before"), "three")
    assert caught.value.exit_code == 4
    assert "config history" in str(caught.value.hint)
    assert any(name.startswith("paictl-configuration-3-") for name in kube.of("configmaps")), "it may yet come"
    assert read(kube) == {1: "one", 2: "two"}


def test_a_refused_push_leaves_nothing_and_says_which_right_is_missing() -> None:
    kube = FakeKube()
    push(kube, "one")
    before = set(kube.objects)
    poor = kube.again()

    def forbid(number: int) -> None:
        if poor.requests[number] == ("POST", "/api/v1/namespaces/paictl-system/secrets"):
            raise KubeError("secrets is forbidden", status=403, where="fake")

    poor.before = forbid
    with pytest.raises(ClusterError, match="forbidden") as caught:
        push(poor, "two")
    assert "docs/clusters.md" in str(caught.value.hint)
    assert set(kube.objects) == before


def test_damage_by_hand_is_told_and_never_taken_for_a_version() -> None:
    kube = FakeKube()
    push(kube, "one")
    push(kube, "two")
    path = "/api/v1/namespaces/paictl-system/configmaps/"
    old, new = (next(name for name in kube.of("configmaps") if f"-{n}-" in name) for n in (1, 2))
    kube.objects.pop(path + old)
    assert read(kube) == {2: "two"}
    kube.objects[path + new]["data"] = dict.fromkeys(kube.objects[path + new]["data"], "changed")
    for ask in (KubernetesCluster(kube, "pai").configurations, KubernetesCluster(kube, "pai").configuration):
        with pytest.raises(ClusterError, match="version 2 is corrupt"):
            ask()
    kube.objects[path + "paictl-configuration"]["data"]["versions"] = "[{]"
    with pytest.raises(ClusterError, match="cannot be read"):
        KubernetesCluster(kube, "pai").configurations()


def test_the_first_push_fixes_the_id_and_openpai_s_comes_before_the_name_it_was_added_by() -> None:
    kube = FakeKube()
    assert KubernetesCluster(kube, "prod").name == "prod"
    default = "/api/v1/namespaces/default/configmaps/"
    kube.objects[default + "pai-cluster-id"] = {"metadata": {}, "data": {"cluster-id": "pai"}}
    kube.objects[default + "pai-configuration"] = {"metadata": {}, "data": {"layout.yaml": "a: 1\n"}}
    cluster = KubernetesCluster(kube, "prod")
    assert cluster.name == "pai"
    left = cluster.left_by_openpai()
    assert (left.cluster_id, dict(left.files)) == ("pai", {"layout.yaml": "a: 1\n"})
    assert "a: 1" not in repr(left)
    cluster.push({"layout.yaml": "machine-list: []\n"}, "first")
    kube.objects.pop(default + "pai-cluster-id")
    kube.objects.pop(default + "pai-configuration")
    assert KubernetesCluster(kube, "another name").name == "pai"
    with pytest.raises(ClusterError, match="has no OpenPAI configuration"):
        KubernetesCluster(kube, "prod").left_by_openpai()


@given(st.dictionaries(st.text("ab./ -é中", min_size=1, max_size=8), st.text("xyé中🙂\n", max_size=5000), max_size=6))
def test_files_that_are_cut_come_back_as_they_were(files: dict[str, str]) -> None:
    packed = pack(files)
    assert unpack(dict(enumerate(packed.objects)), packed.index) == files
    for data in packed.objects:
        assert sum(len(text.encode()) for text in data.values()) <= store.ROOM
        assert all(store._KEY.fullmatch(key) for key in data)
