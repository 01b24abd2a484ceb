"""What only a real API server can show: pushes that are killed, pushes at the same time, limits, rights."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from paictl.cluster.accounts import Account, LastAdministratorError
from paictl.cluster.interface import Cluster, ClusterError, ConfigVersion, NodeChange
from paictl.cluster.kubernetes.cluster import open_pinned
from paictl.cluster.kubernetes.connection import pin
from paictl.cluster.presets import preset_files
from paictl.config.pushing.push import seal_files, secrets_of
from paictl.operate.users.accounts import remove
from tests.conftest import ROOT
from tests.contract.conftest import forget_configuration
from tests.contract.pushers import LOST, SERVICES, WON, Pushers, files_of
from tests.e2e_kube.controlplane import ControlPlane, kubeconfig
from tests.e2e_kube.kubeapi import Json, KubeApi, until

OURS = "/api/v1/namespaces/paictl-system"


@pytest.fixture
def api(session_plane: ControlPlane) -> KubeApi:
    api = KubeApi(session_plane)
    forget_configuration(api)
    return api


@pytest.fixture(scope="module")
def pushers(session_plane: ControlPlane) -> Iterator[Pushers]:
    made = Pushers(session_plane.kubeconfig)
    yield made
    made.stop()


def opened(plane: ControlPlane) -> Cluster:
    return open_pinned(pin("real", str(plane.kubeconfig), "x"))


def whole(plane: ControlPlane, api: KubeApi) -> dict[int, str]:
    """All versions, by number who pushed them; each is whole, and nowhere but in Secrets is a secret."""
    found = {}
    for version in opened(plane).configurations():
        assert version.files["layout.yaml"] == files_of(version.message)["layout.yaml"]
        assert "sealed:scrypt:" in version.files[SERVICES]
        found[version.number] = version.message
    text = json.dumps(api.get(f"{OURS}/configmaps"))
    assert "hunter2" not in text
    assert base64.b64encode(b"str:hunter2").decode()[:12] not in text
    return found


def test_a_push_that_is_killed_is_there_whole_or_not_at_all(
    session_plane: ControlPlane, api: KubeApi, pushers: Pushers
) -> None:
    assert pushers.wait(pushers.start("first")) == WON
    spans = []
    for word in ("second", "third", "fourth"):
        begun = time.monotonic()
        assert pushers.wait(pushers.start(word)) == WON
        spans.append(time.monotonic() - begun)
    span = min(spans)  # one that happened to be slow would let most of them end before they are killed
    killed, dice = 0, random.Random(11)  # noqa: S311 - no secret is drawn
    for number in range(30):
        before = whole(session_plane, api)
        pid = pushers.start(f"push{number}")
        time.sleep(dice.uniform(0, span))  # the moment of death, not a wait for something
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        killed += pushers.wait(pid) == -signal.SIGKILL
        after = whole(session_plane, api)
        assert after in (before, {**before, max(before) + 1: f"push{number}"})
    assert killed >= 5, "else they were killed at no moment that matters"
    assert pushers.wait(pushers.start("last")) == WON
    named = whole(session_plane, api)
    assert named[max(named)] == "last"
    objects = [one["metadata"]["name"] for one in api.get(f"{OURS}/configmaps")["items"]]
    versions = {name.rsplit("-", 1)[0] for name in objects if name.startswith("paictl-configuration-")}
    assert len(versions) == len(named), "what the dead have left is collected"
    assert {one["metadata"]["name"] for one in api.get(f"{OURS}/secrets")["items"]} == versions


def test_of_two_pushes_at_once_exactly_one_wins_and_nothing_is_lost(
    session_plane: ControlPlane, api: KubeApi, pushers: Pushers
) -> None:
    assert pushers.wait(pushers.start("first")) == WON
    expected = {1: "first"}
    for number in range(20):
        base = max(expected)
        both = {word: pushers.start(word, base) for word in (f"ann{number}", f"bob{number}")}
        ended = {word: pushers.wait(pid) for word, pid in both.items()}
        assert sorted(ended.values()) == [WON, LOST]
        expected[base + 1] = next(word for word, code in ended.items() if code == WON)
        assert whole(session_plane, api) == expected


def test_pushes_over_whatever_is_there_all_come_through(
    session_plane: ControlPlane, api: KubeApi, pushers: Pushers
) -> None:
    words = {f"push{number}" for number in range(4)}
    assert [pushers.wait(pid) for pid in [pushers.start(word) for word in words]] == [WON] * 4
    found = whole(session_plane, api)
    assert (list(found), set(found.values())) == ([1, 2, 3, 4], words)


def test_the_largest_configuration_is_stored_and_a_larger_one_is_not_even_tried(
    session_plane: ControlPlane, api: KubeApi
) -> None:
    cluster = opened(session_plane)
    line = "# " + "ü" * 49 + "\n"
    largest = {"layout.yaml": "machine-list: []\n" + line * (8 * 2**20 // len(line.encode()) - 1)}
    assert cluster.push(largest, "large").number == 1
    assert opened(session_plane).configuration().files == largest
    with pytest.raises(ClusterError, match="the limit is 8"):
        cluster.push({"layout.yaml": largest["layout.yaml"] + line * 2}, "larger")
    assert len(api.get(f"{OURS}/configmaps?labelSelector=paictl.io/configuration-version")["items"]) == 10


def test_the_rights_in_the_documentation_are_enough_and_looking_is_not_pushing(
    session_plane: ControlPlane, api: KubeApi, tmp_path: Path
) -> None:
    opened(session_plane).push({"layout.yaml": "machine-list: []\n"}, "by an administrator")
    look, push = documented_rights()
    looker = as_user(session_plane, api, tmp_path, "looker", look)
    assert looker.configuration().message == "by an administrator"
    assert looker.about().version.startswith("v1.")
    assert looker.nodes() is not None
    assert looker.epoch < looker.now
    with pytest.raises(ClusterError, match="forbidden") as caught:
        looker.push({"layout.yaml": "machine-list: [] # mine\n"}, "not mine to push")
    assert "docs/clusters.md" in str(caught.value.hint)
    with pytest.raises(ClusterError, match="forbidden"):
        looker.set_node("worker1", NodeChange.CORDON)
    pusher = as_user(session_plane, api, tmp_path, "pusher", [*look, *push])
    sealed = seal_files(files_of("pusher"))
    assert pusher.push(sealed, "pusher", secrets=secrets_of(files_of("pusher"), sealed)).number == 2
    assert pusher.push(sealed, "the same again").number == 3
    assert [version.number for version in looker.configurations()] == [1, 2, 3]
    assert ["pusher" in version.author for version in looker.configurations()] == [False, True, True]


def documented_rights() -> tuple[list[Json], list[Json]]:
    """The roles in docs/clusters.md: to look, and to push."""
    text = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8").partition("## Rights")[2]
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)
    look, push, _ = ([one for one in yaml.safe_load_all(textwrap.dedent(block)) if one] for block in blocks)
    return look, push


def as_user(plane: ControlPlane, api: KubeApi, folder: Path, name: str, roles: list[Json]) -> Cluster:
    """The cluster as somebody sees it who has some roles and no more."""
    group = "/apis/rbac.authorization.k8s.io/v1"
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}, f"{accounts}/{name}")
    for role in roles:
        about = role["metadata"]
        at = f"{group}/namespaces/{about['namespace']}" if "namespace" in about else group
        api.apply(role, f"{at}/{role['kind'].lower()}s/{about['name']}")
        binding = {
            "apiVersion": role["apiVersion"],
            "kind": f"{role['kind']}Binding",
            "metadata": {"name": f"{about['name']}-{name}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": about["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
        }
        api.apply(binding, f"{at}/{role['kind'].lower()}bindings/{about['name']}-{name}")
    token = api.call("POST", f"{accounts}/{name}/token", {"spec": {}})["status"]["token"]
    kubeconfig(folder / f"{name}.conf", plane.server, plane.folder / "ca.crt", token)
    cluster = open_pinned(pin(name, str(folder / f"{name}.conf"), None))
    until(lambda: _may_look(cluster), 30, "the roles are in force")
    return cluster


def _may_look(cluster: Cluster) -> bool:
    try:
        cluster.configurations()
    except ClusterError:
        return False
    return True


# --- the command line


class Admin:
    """An administrator with a home of their own, who types."""

    def __init__(self, plane: ControlPlane, home: Path) -> None:
        self.home, self.plane = home, plane
        self.environment = {
            **os.environ,
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "xdg"),
            "XDG_STATE_HOME": str(home / "state"),
        }
        self.folder = home / "cluster"
        self.folder.mkdir(parents=True)
        for name, text in preset_files("lab").items():
            (self.folder / name).write_text(text)

    def types(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "paictl", *words],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


def test_two_administrators_work_on_one_cluster(session_plane: ControlPlane, api: KubeApi, tmp_path: Path) -> None:
    ann, bob = Admin(session_plane, tmp_path / "ann"), Admin(session_plane, tmp_path / "bob")
    for admin in (ann, bob):
        admin.types("cluster", "add", "prod", "--kubeconfig", str(session_plane.kubeconfig), "--context", "x")
        admin.types("cluster", "use", "prod")
    assert "this is cluster prod, not other" in ann.types(
        "config", "push", "-p", str(ann.folder), "--cluster-id", "other", code=2
    )
    ann.types("config", "push", "-p", str(ann.folder), "--cluster-id", "prod")
    bob.types("config", "pull", "-o", str(bob.home / "pulled"))
    for admin, folder, port in ((ann, ann.folder, 1111), (bob, bob.home / "pulled", 2222)):
        file = folder / SERVICES
        file.write_text(file.read_text().replace("rest-server:\n", f"rest-server:\n  server-port: {port}\n"))
        said = admin.types("config", "push", "-p", str(folder), "-y", code=0 if admin is ann else 2)
    assert "others changed 1 key" in said
    assert all(word in said for word in ("rest-server.server-port", "BASE", "CLUSTER", "YOURS", "1111", "2222"))
    assert "only-on-this-machine" not in json.dumps(api.get(f"{OURS}/configmaps"))
    assert "only-on-this-machine" not in ann.types("config", "diff", str(bob.home / "pulled"), code=1)
    ann.types("config", "rollback", "1", "-y")
    assert [row["number"] for row in json.loads(ann.types("config", "history", "-o", "json"))["items"]] == [1, 2, 3]
    assert newest(session_plane).files == opened(session_plane).configuration(1).files


def newest(plane: ControlPlane) -> ConfigVersion:
    return opened(plane).configuration()


def test_a_plan_holds_no_secret_and_takes_them_from_the_folder(
    session_plane: ControlPlane, api: KubeApi, tmp_path: Path
) -> None:
    ann, plan = Admin(session_plane, tmp_path / "ann"), tmp_path / "plan.json"
    ann.types("cluster", "add", "prod", "--kubeconfig", str(session_plane.kubeconfig), "--context", "x")
    ann.types("config", "plan", "-p", str(ann.folder), "-o", str(plan), "--cluster", "prod")
    assert "only-on-this-machine" not in plan.read_text()
    said = ann.types("config", "apply", str(plan), "-y", "--cluster", "prod", code=2)
    assert "config apply FILE -p DIR" in said
    assert not api.get(f"{OURS}/configmaps?labelSelector=app.kubernetes.io/part-of=paictl")["items"]
    ann.types("config", "apply", str(plan), "-p", str(ann.folder), "-y", "--cluster", "prod")
    assert newest(session_plane).number == 1


def test_what_openpai_left_is_read_with_its_id(session_plane: ControlPlane, api: KubeApi, tmp_path: Path) -> None:
    ann = Admin(session_plane, tmp_path / "ann")
    default = "/api/v1/namespaces/default/configmaps"
    files = preset_files("lab")
    for name, data in (("pai-cluster-id", {"cluster-id": "pai"}), ("pai-configuration", files)):
        api.call("POST", default, {"metadata": {"name": name}, "data": data})
    try:
        ann.types("cluster", "add", "prod", "--kubeconfig", str(session_plane.kubeconfig))
        assert ann.types("config", "get-id", "--cluster", "prod") == "pai\n"
        ann.types("config", "pull", "--from-openpai", "-o", str(tmp_path / "left"), "--cluster", "prod")
        assert {path.name: path.read_text() for path in (tmp_path / "left").iterdir()} == files
        assert {path.stat().st_mode & 0o777 for path in (tmp_path / "left").iterdir()} == {0o600}
        ann.types("config", "push", "-p", str(tmp_path / "left"), "--cluster-id", "pai", "--cluster", "prod")
    finally:
        for name in ("pai-cluster-id", "pai-configuration"):
            api.call("DELETE", f"{default}/{name}")
    assert ann.types("config", "get-id", "--cluster", "prod") == "pai\n", "the first push has fixed it"


@pytest.mark.usefixtures("api")
def test_a_client_that_died_before_it_left_office_does_not_keep_the_other_there(
    session_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = open_pinned(pin("real", str(session_plane.kubeconfig), "x")).users
    root, _ = (users.put_account(Account(name, True)) for name in ("root", "adm2"))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:  # the note is there, the account is not yet written
        patch.setattr("paictl.cluster.kubernetes.users.replace", killed)
        with pytest.raises(KeyboardInterrupt):
            users.put_account(replace(root, admin=False))
    remove(users, "adm2")
    assert [(one.name, one.admin) for one in users.accounts()] == [("root", True)]
    with pytest.raises(LastAdministratorError):
        remove(users, "root")
