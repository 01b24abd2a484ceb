"""`deploy.node_dns`: what is applied, when it is planned, whom it stays for, and which node's cache does not run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from paictl.cli.deploy.progress import show_cache_users
from paictl.deploy import addons
from paictl.deploy.addons import NodeDns
from paictl.deploy.artifacts import Artifact, ArtifactKind, Artifacts
from paictl.deploy.desired import Desired
from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Deployment
from paictl.deploy.kubeadm import kubelet_configuration
from paictl.deploy.node_dns import (
    ADDRESS,
    METRICS,
    UNIT,
    completed,
    manifest_of,
    mark_of,
    missing_caches,
    outdated_image,
    state_of,
)
from paictl.deploy.site import DeployError
from paictl.deploy.upgrading import ReleaseImages, UpgradeWork
from paictl.deploy.verifying import CheckState, answers, ask_script
from paictl.remote.kube.client import KubeError
from tests.conftest import ROOT
from tests.unit.deploy.loading import load_beside
from tests.unit.deploy.test_inventory import SETTINGS, made

MANIFEST = manifest_of("cluster.local", "10.192.0.0/13")
MARK = mark_of(MANIFEST)
IMAGE = "registry.k8s.io/coredns/coredns:v1.14.6"


def pod(node: str, mark: str = MARK, *, ready: bool = True, waiting: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod of the cache."""
    state = {"waiting": waiting} if waiting else {"running": {}}
    return {
        "metadata": {"annotations": {"paictl.io/manifest": mark}},
        "spec": {"nodeName": node},
        "status": {"containerStatuses": [{"ready": ready, "state": state}]},
    }


class Api:
    """An API with CoreDNS and some pods of the cache; `images` by the last part of a workload's path."""

    def __init__(self, *pods: dict[str, Any], **images: str) -> None:
        self.pods, self.images = pods, {"coredns": IMAGE, **images}

    def get(self, path: str) -> dict[str, Any]:
        name = path.rpartition("/")[2].replace("-", "_")
        if not self.images.get(name):
            raise KubeError("not found", status=404, where=path)
        return {"spec": {"template": {"spec": {"containers": [{"image": self.images[name]}]}}}}

    def request(self, method: str, path: str, patch: list[dict[str, str]], *, kind: str) -> None:
        assert (method, path.rpartition("/")[2], kind) == ("PATCH", "node-dns", "application/json-patch+json")
        self.images["node_dns"] = patch[0]["value"]

    def list(self, path: str, query: dict[str, str]) -> list[tuple[str, tuple[dict[str, Any], ...]]]:
        assert (path, query) == ("/api/v1/namespaces/kube-system/pods", {"labelSelector": "k8s-app=node-dns"})
        return [("1", self.pods)]


def with_cache(deployment: Deployment, *, node_dns: bool = True) -> Deployment:
    return replace(deployment, settings=replace(deployment.settings, node_dns=node_dns))


def site(tmp_path: Path, wanted: bool, first: dict[str, Any], other: dict[str, Any] | None = None) -> Any:
    """A cluster of m1 and w1 that have said this of their cache; `played` are the playbooks that ran."""
    deployment = with_cache(made(tmp_path), node_dns=wanted)
    states = {"m1": first, "w1": other or {"state": "", "unit": bool(first.get("unit")), "users": []}}
    played: list[Any] = []
    return SimpleNamespace(
        desired=SimpleNamespace(deployment=deployment),
        machines=deployment.machines,
        timeout=0.0,
        played=played,
        facts={one.name: HostFacts(one, {"node_dns": states[one.name]}) for one in deployment.machines},
        play=lambda name, _, machines, variables: played.append(
            (name, variables["paictl_dns"], [one.name for one in machines])
        ),
    )


def planned(made: Any) -> dict[str, list[str]]:
    phase = NodeDns(made)
    return {name: found for name, facts in made.facts.items() if (found := phase.changes(facts))}


ACTIVE = {"state": MARK, "unit": True, "users": []}
STAYS = {"state": "leaving", "unit": True, "users": ["ml/train-0"]}
UNKNOWN = {"state": "leaving", "unit": True, "users": None}
UNUSED = {"state": "leaving", "unit": True, "users": []}
NONE = {"state": "", "unit": False, "users": []}
LATER = ["delete the DNS cache of the node, once no running pod uses it"]
NOW = ["delete the DNS cache of the node"]


def test_the_manifest_forwards_to_the_cluster_s_dns_by_tcp_and_shares_its_sockets() -> None:
    config, daemon = yaml.safe_load_all(completed(MANIFEST, IMAGE))
    corefile = config["data"]["Corefile"]
    assert corefile.count(f"bind {ADDRESS}\n") == corefile.count("forward . 10.192.0.10 {\n        force_tcp") == 2
    assert corefile.startswith("cluster.local:53 in-addr.arpa:53 ip6.arpa:53 {")
    spec = daemon["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert (container["image"], spec["hostNetwork"], spec["dnsPolicy"]) == (IMAGE, True, "Default")
    assert "ports" not in container, "two pods that declare a port of the host exclude each other"
    assert daemon["spec"]["updateStrategy"]["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": 0}
    assert "@" not in completed(MANIFEST, IMAGE)
    assert mark_of(manifest_of("pai.local", "10.192.0.0/13")) != MARK


def test_kubelets_name_the_cache_first_and_the_cluster_s_dns_for_when_it_is_away(tmp_path: Path) -> None:
    before = made(tmp_path)
    assert "clusterDNS" not in kubelet_configuration(before)
    assert kubelet_configuration(with_cache(before))["clusterDNS"] == [ADDRESS, "10.192.0.10"]


def test_machines_have_the_address_and_keep_pods_from_the_metrics(tmp_path: Path) -> None:
    rows = tuple(Artifact(name, ArtifactKind.BINARY, "v2.4.2", "amd64", "", "", name) for name in ("containerd",))
    before = made(tmp_path)
    both = [Desired(one, Artifacts(tmp_path, rows), "v1.37.1", ()) for one in (before, with_cache(before))]
    path = f"/etc/systemd/system/{UNIT}.service"
    for machine in before.machines:
        files = [{one["path"]: one["content"] for one in desired.files(machine)} for desired in both]
        assert path not in files[0]
        assert f"ip address replace {ADDRESS}/32 dev lo" in files[1][path]
        firewall = "/etc/systemd/system/paictl-firewall.service"
        assert [f" {METRICS} " in one[firewall] for one in files] == [False, True]
        assert [UNIT in desired.units(machine) for desired in both] == [False, True]
    reset = (ROOT / "playbooks/library/paictl_reset.py").read_text()
    assert f'"{ADDRESS}/32"' in reset
    assert path in reset


@pytest.mark.parametrize(
    ("wanted", "first", "found"),
    [
        (True, NONE, {"m1": [f"DNS cache on each node: {ADDRESS}"]}),
        (True, {**ACTIVE, "state": "other"}, {"m1": [f"DNS cache on each node: {ADDRESS}"]}),
        (True, {**NONE, "state": "restored"}, {"m1": [f"DNS cache on each node: {ADDRESS}"]}),
        (False, {**NONE, "state": "restored"}, {"m1": LATER}),
        (True, STAYS, {"m1": [f"DNS cache on each node: {ADDRESS}"]}),
        (True, ACTIVE, {}),
        (False, NONE, {}),
        (False, ACTIVE, {"m1": LATER, "w1": LATER}),
        (False, STAYS, {}),
        (False, UNKNOWN, {}),
        (False, UNUSED, {"m1": NOW, "w1": NOW}),
        (False, {**NONE, "unit": True}, {"m1": NOW, "w1": NOW}),
    ],
)
def test_it_is_planned_where_it_differs(
    tmp_path: Path, wanted: bool, first: dict[str, Any], found: dict[str, list[str]]
) -> None:
    assert planned(site(tmp_path, wanted, first)) == found


@pytest.mark.parametrize(
    ("users", "plays"),
    [
        (["ml/train-0"], [("node_dns", "leaving", ["m1"])]),
        (None, [("node_dns", "leaving", ["m1"])]),
        ([], [("node_dns", "leaving", ["m1"]), ("node_dns", "absent", ["m1", "w1"])]),
    ],
)
def test_it_goes_at_once_only_where_no_pod_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, users: list[str] | None, plays: list[Any]
) -> None:
    here = site(tmp_path, False, ACTIVE)

    def look(phase: Any, _: Any) -> None:
        machine = here.machines[0]
        phase.site.facts["m1"] = HostFacts(machine, {"node_dns": {"state": "leaving", "unit": True, "users": users}})

    monkeypatch.setattr("paictl.deploy.addons.Facts.run", look)
    NodeDns(here).run(lambda *_: None)
    assert here.played == plays


def test_what_is_left_goes_in_a_later_run(tmp_path: Path) -> None:
    here = site(tmp_path, False, UNUSED)
    NodeDns(here).run(lambda *_: None)
    assert here.played == [("node_dns", "absent", ["m1", "w1"])]


def test_a_cache_that_does_not_start_fails_with_its_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = site(tmp_path, True, NONE)
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    monkeypatch.setattr(addons, "api", lambda _: Api(pod("m1"), pod("w1", ready=False, waiting=waiting)))
    with pytest.raises(DeployError, match="does not run on w1: ImagePullBackOff: no such image"):
        NodeDns(here).run(lambda *_: None)
    monkeypatch.setattr(addons, "api", lambda _: Api(pod("m1"), pod("w1")))
    NodeDns(here).run(lambda *_: None)
    assert here.played == [("node_dns", "present", ["m1"])] * 2


@pytest.mark.parametrize(
    ("images", "said"),
    [({"node_local_dns": "x"}, "daemonset node-local-dns: already exists"), ({"coredns": ""}, "no deployment")],
)
def test_without_coredns_or_beside_another_cache_nothing_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: dict[str, str], said: str
) -> None:
    here = site(tmp_path, True, NONE)
    monkeypatch.setattr(addons, "api", lambda _: Api(**images))
    with pytest.raises(DeployError, match=said):
        NodeDns(here).run(lambda *_: None)
    assert here.played == []


def test_only_ready_pods_of_this_manifest_count() -> None:
    client: Any = Api(pod("a"), pod("b", "older"), pod("c", ready=False), {**pod("d"), "status": {}})
    gone = pod("e")
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    client.pods += (gone,)
    assert set(missing_caches(client, "abcde", MARK)) == set("bcde")


def test_an_upgrade_gives_it_the_image_of_coredns() -> None:
    for images, wanted in (
        ({}, ""),
        ({"node_dns": IMAGE}, ""),
        ({"node_dns": "r/coredns:v1"}, IMAGE),
        ({"node_dns": "r/coredns:v1", "coredns": ""}, ""),
    ):
        client: Any = Api(**images)
        assert outdated_image(client) == wanted


def test_the_last_phase_of_an_upgrade_does_it_once(tmp_path: Path) -> None:
    here, client = site(tmp_path, True, ACTIVE), Api(node_dns="r/coredns:v1")
    phase = ReleaseImages(cast("UpgradeWork", SimpleNamespace(client=client, site=here)))
    assert phase.should_run() == ""
    phase.run(lambda *_: None)
    assert client.images["node_dns"] == IMAGE
    assert here.played == [], "no machine has images to release"
    assert phase.should_run() != ""


def test_pods_use_it_that_asked_for_the_cluster_s_dns_before_it_was_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    program = load_beside("module_utils/paictl_node_dns.py")
    rows = (
        ("a", "2026-01-01T00:00:00Z", "ClusterFirst", "<none>", "Running", True),
        ("b", "2026-01-01T00:00:00Z", "ClusterFirst", "false", "Pending", True),
        ("c", "2026-01-01T00:00:00Z", "ClusterFirstWithHostNet", "true", "Running", True),
        ("d", "2026-01-01T00:00:00Z", "ClusterFirst", "true", "Running", False),
        ("e", "2026-01-01T00:00:00Z", "Default", "<none>", "Running", False),
        ("f", "2026-01-01T00:00:00Z", "ClusterFirst", "<none>", "Succeeded", False),
        ("g", "2026-01-02T00:00:01Z", "ClusterFirst", "<none>", "Running", False),
    )
    lines = "".join(f"ml   {' '.join(row[:1] + row[1:5])}\n" for row in rows)
    monkeypatch.setattr(program, "run", lambda _: (0, lines, ""))
    since = 1767312000  # 2026-01-02T00:00:00Z
    assert program.users(since) == [f"ml/{row[0]}" for row in rows if row[5]]
    monkeypatch.setattr(program, "run", lambda _: (1, "", "refused"))
    assert program.users(since) is None


@pytest.mark.parametrize(
    ("noted", "state", "asked"), [("", "", False), (f"{MARK}\n", MARK, False), ("leaving 17\n", "leaving", True)]
)
def test_pods_are_looked_at_only_where_it_is_to_go(
    monkeypatch: pytest.MonkeyPatch, noted: str, state: str, asked: bool
) -> None:
    program = load_beside("module_utils/paictl_node_dns.py")
    monkeypatch.setattr(program, "read", lambda _: noted)
    monkeypatch.setattr(program, "users", lambda since: [f"since {since}"])
    assert program.state() == {"state": state, "unit": False, "users": ["since 17"] if asked else []}
    assert state_of({"node_dns": program.state()}).stays == asked


def test_pods_that_keep_it_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    users = [f"ml/train-{number}" for number in range(6)]
    hosts: Any = [SimpleNamespace(values={"node_dns": {**STAYS, "users": users}}), SimpleNamespace(values={})]
    show_cache_users(hosts)
    said = " ".join(capsys.readouterr().err.split())
    assert "stays for 6 pods: ml/train-0, ml/train-1, ml/train-2, ml/train-3, …;" in said
    show_cache_users([SimpleNamespace(values={"node_dns": UNKNOWN})])  # type: ignore[list-item]
    assert "not known whether pods still use it" in " ".join(capsys.readouterr().err.split())
    show_cache_users([SimpleNamespace(values={"node_dns": one}) for one in (ACTIVE, NONE, UNUSED)])  # type: ignore[misc]
    assert capsys.readouterr().err == ""


def test_verify_asks_the_cache_of_each_node_by_its_address() -> None:
    assert "node-dns" not in ask_script("10.0.0.7", {})
    script = ask_script("10.0.0.7", {}, domain="pai.local", cache=ADDRESS)
    assert f"nslookup kubernetes.default.svc.pai.local {ADDRESS} " in script
    assert "cluster.local" not in script
    said = {"terminated": {"message": "dns ok\nservice ok\nnode-dns no\n"}}
    found = answers("w1", {"status": {"containerStatuses": [{"state": said}]}})
    assert [(one.check, one.verdict) for one in found if one.verdict is not CheckState.OK] == [
        ("node-dns", CheckState.FAILED)
    ]
    assert "spec.nodeName=w1" in found[-1].message


def test_kubespray_s_variable_is_named_with_its_counterpart(tmp_path: Path) -> None:
    for value, said in (("true", "write deploy: {node_dns: true}"), ("false", "a variable of Kubespray")):
        extra = f"openpai_kubespray_extra_var: {{enable_nodelocaldns: '{value}'}}\n"
        (note,) = made(tmp_path, SETTINGS + extra).settings.notes
        assert said in note
        assert "enable_nodelocaldns" in note
