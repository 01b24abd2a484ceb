"""`deploy.pod_security`: which labels namespaces get, which go again, what is reported, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.config.making.generate import read_inputs
from paictl.deploy import pod_security
from paictl.deploy.auditing import cluster_looks
from paictl.deploy.cluster_settings import CONTROL_PLANE, changed_sections, noted_settings
from paictl.deploy.facts import HostFacts
from paictl.deploy.phase import RIGHT
from paictl.deploy.pod_security import OURS, PodSecurity, changes_to, labels_of
from paictl.deploy.verifying import namespace_findings
from paictl.errors import PaictlError
from paictl.remote.kube.client import MERGE, KubeError
from tests.unit.deploy.test_inventory import made

HEAD = "user: deploy\npassword: kelp\ndocker_image_tag: v1.8.1\ndeploy:\n"
PREFIX = "pod-security.kubernetes.io"
VERSION = "v1.37.1"

Json = dict[str, Any]


class Api:
    """Namespaces by name, changed as a merge patch changes them."""

    def __init__(self, **namespaces: dict[str, dict[str, str]]) -> None:
        self.namespaces: dict[str, Json] = {
            name: {"metadata": {"name": name, **about}} for name, about in namespaces.items()
        }
        self.patched: list[str] = []

    def list(self, path: str) -> list[tuple[str, list[Json]]]:
        assert path == "/api/v1/namespaces"
        return [("1", list(self.namespaces.values()))]

    def request(self, method: str, path: str, body: Json, *, query: object = None, kind: str = "") -> Json:
        assert query is None or method == "POST"
        if method == "POST":
            name = body["metadata"]["name"]
            if name in self.namespaces:
                raise KubeError("is there", status=409, where=path)
            self.namespaces[name] = json.loads(json.dumps(body))
            return body
        assert (method, kind) == ("PATCH", MERGE)
        name = path.rpartition("/")[2]
        self.patched.append(name)
        for key, values in body["metadata"].items():
            merged = {**self.namespaces[name]["metadata"].get(key, {}), **values}
            self.namespaces[name]["metadata"][key] = {key: one for key, one in merged.items() if one is not None}
        return self.namespaces[name]

    def labels(self, name: str) -> dict[str, str]:
        found: dict[str, str] = self.namespaces[name]["metadata"].get("labels", {})
        return found


def site(tmp_path: Path, wanted: dict[str, str], *, joined: bool = True) -> Any:
    deployment = made(tmp_path)
    deployment = replace(deployment, settings=replace(deployment.settings, pod_security=wanted))
    values = {"done": "pai", "kubernetes": ["/etc/kubernetes/kubelet.conf"]} if joined else {}
    return SimpleNamespace(
        desired=SimpleNamespace(deployment=deployment, version=VERSION),
        machines=deployment.machines,
        cluster="pai",
        facts={one.name: HostFacts(one, {"differences": {}, **values}) for one in deployment.machines},
    )


def applied(api: Api, tmp_path: Path, wanted: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the phase had something to do."""
    monkeypatch.setattr(pod_security, "api", lambda _: api)
    phase = PodSecurity(site(tmp_path, wanted))
    if phase.should_run():
        assert phase.should_run() == RIGHT
        return False
    phase.run(lambda *_: None)
    assert phase.should_run() == RIGHT
    return True


def test_labels_come_change_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(research={"labels": {"team": "vision", f"{PREFIX}/enforce": "privileged"}}, default={})
    assert applied(api, tmp_path, {"research": "restricted", "new": "baseline"}, monkeypatch)
    assert api.labels("research") == {
        "team": "vision",
        f"{PREFIX}/enforce": "restricted",
        f"{PREFIX}/enforce-version": "v1.37",
        f"{PREFIX}/audit": "restricted",
        f"{PREFIX}/audit-version": "v1.37",
        f"{PREFIX}/warn": "restricted",
        f"{PREFIX}/warn-version": "v1.37",
    }
    assert api.labels("new")[f"{PREFIX}/enforce"] == "baseline"
    assert api.namespaces["new"]["metadata"]["annotations"] == {OURS: "baseline"}
    assert set(api.patched) == {"research", "new"}
    assert not applied(api, tmp_path, {"research": "restricted", "new": "baseline"}, monkeypatch)

    api.labels("new")[f"{PREFIX}/enforce"] = "privileged"  # somebody loosens it
    assert applied(api, tmp_path, {"research": "baseline", "new": "baseline"}, monkeypatch)
    assert {api.labels(name)[f"{PREFIX}/enforce"] for name in ("new", "research")} == {"baseline"}

    api.labels("new")[f"{PREFIX}/enforce"] = "restricted"  # somebody's own, which stays
    assert applied(api, tmp_path, {}, monkeypatch)
    assert api.labels("research") == {"team": "vision"}
    assert api.labels("new") == {f"{PREFIX}/enforce": "restricted", f"{PREFIX}/enforce-version": "v1.37"}
    assert api.namespaces["new"]["metadata"]["annotations"] == {}
    assert set(api.namespaces) == {"research", "new", "default"}
    assert not applied(api, tmp_path, {}, monkeypatch)


LEVELS = st.sampled_from(["privileged", "baseline", "restricted"])
NAMES = st.sampled_from(["a", "b", "c"])
MODES = st.sampled_from([f"{PREFIX}/enforce", f"{PREFIX}/warn", f"{PREFIX}/audit-version", "team"])


@given(st.dictionaries(NAMES, st.dictionaries(MODES, LEVELS)), st.lists(st.dictionaries(NAMES, LEVELS), max_size=4))
def test_whatever_was_wanted_before_the_last_wish_holds_and_nothing_of_ours_is_left(
    before: dict[str, dict[str, str]], wishes: list[dict[str, str]]
) -> None:
    api = Api(**{name: {"labels": labels} for name, labels in before.items()})
    for wanted in wishes:
        for name, metadata in changes_to(api.namespaces, wanted, VERSION).items():
            pod_security._set(api, name, metadata)  # type: ignore[arg-type]
        assert changes_to(api.namespaces, wanted, VERSION) == {}
        for name, level in wanted.items():
            assert labels_of(level, VERSION).items() <= api.labels(name).items()
        ours = {name for name, one in api.namespaces.items() if OURS in one["metadata"].get("annotations", {})}
        assert ours == set(wanted)
    touched = {name for wanted in wishes for name in wanted}
    for name, labels in before.items():
        assert api.labels(name).get("team") == labels.get("team")
        assert name in touched or api.labels(name) == labels
    for name in touched - set(wishes[-1] if wishes else ()):
        assert not any(key.startswith(PREFIX) for key in api.labels(name))


def test_a_plan_says_what_a_new_cluster_gets_and_what_changes_on_one_that_runs(tmp_path: Path) -> None:
    new = site(tmp_path, {"research": "restricted"}, joined=False)
    lines = {name: PodSecurity(new).changes(facts) for name, facts in new.facts.items()}
    assert {name: found for name, found in lines.items() if found} == {"m1": ["research: restricted"]}
    running = site(tmp_path, {"research": "restricted"})
    first = running.desired.deployment.first
    assert PodSecurity(running).changes(running.facts[first.name]) == []

    def said(noted: dict[str, str] | None) -> list[str]:
        note = noted_settings(running.desired.deployment, first)
        del note["pod_security"]
        note |= {} if noted is None else {"pod_security": noted}
        facts = HostFacts(first, {"settings": json.dumps(note)})
        return changed_sections(running.desired.deployment, facts).get("pod_security", [])

    assert said({"research": "restricted"}) == []
    assert said({"research": "baseline", "old": "baseline"}) == [
        "old: baseline -> -",
        "research: baseline -> restricted",
    ]
    assert said(None) == ["research: - -> restricted"]  # a note of an earlier paictl
    assert changed_sections(made(tmp_path), HostFacts(first, {"settings": json.dumps(_without(tmp_path))})) == {}
    restored = {name: _without(tmp_path)[name] for name in ("kubelet", *CONTROL_PLANE)} | {"restored": True}
    found = changed_sections(made(tmp_path), HostFacts(first, {"settings": json.dumps(restored)}))
    assert set(found) == {"jobs_on_masters", "kube_proxy", "offline", "pod_security"}
    assert {line for lines in found.values() for line in lines} == {"the previously applied value is unknown"}


def _without(tmp_path: Path) -> dict[str, Any]:
    """The note of a cluster whose paictl did not know the key."""
    deployment = made(tmp_path)
    return {key: one for key, one in noted_settings(deployment, deployment.first).items() if key != "pod_security"}


def test_a_namespace_that_enforces_something_else_is_reported() -> None:
    api: Any = Api(research={"labels": {f"{PREFIX}/enforce": "baseline"}}, default={})
    deployment: Any = SimpleNamespace(settings=SimpleNamespace(pod_security={}))
    assert namespace_findings(api, deployment) == ()
    deployment.settings.pod_security = {"research": "restricted", "default": "baseline", "none": "privileged"}
    said = "research enforces baseline, not restricted; default enforces nothing, not baseline; "
    (found,) = namespace_findings(api, deployment)
    assert (found.verdict.value, found.message) == ("failed", said + "none enforces nothing, not privileged")
    assert cluster_looks(api, {"research": "restricted"})["pod_security"]() == [
        "research enforces baseline, not restricted"
    ]
    deployment.settings.pod_security = {"research": "baseline"}
    assert [one.verdict.value for one in namespace_findings(api, deployment)] == ["ok"]
    assert cluster_looks(api, {"research": "baseline"})["pod_security"]() == []
    assert cluster_looks(api)["pod_security"]() == []


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("kube-system", "belongs to the system"),
        ("kube-flannel", "belongs to the system"),
        ("paictl-system", "belongs to the system"),
        ("local-path-storage", "belongs to the system"),
        ("paictl-jobs", "has a key of its own"),
        ("Research", "is not a valid namespace"),
        ("a.b", "is not a valid namespace"),
        ("-a", "is not a valid namespace"),
        ("a" * 64, "is not a valid namespace"),
    ],
)
def test_other_namespaces_are_refused_with_their_place(tmp_path: Path, name: str, error: str) -> None:
    with pytest.raises(PaictlError, match=error) as caught:
        made(tmp_path, f"{HEAD}  pod_security:\n    research: baseline\n    {name}: baseline\n")
    assert str(caught.value.where).endswith("config.yaml:7:5")
    assert caught.value.hint


def test_levels_are_read_and_a_wrong_one_is_reported(tmp_path: Path) -> None:
    found = made(tmp_path, f"{HEAD}  pod_security: {{b: baseline, a: restricted}}\n").settings.pod_security
    assert found == {"a": "restricted", "b": "baseline"}
    assert made(tmp_path, f"{HEAD}  pod_security:\n").settings.pod_security == {}
    (tmp_path / "config.yaml").write_text(f"{HEAD}  pod_security: {{a: strict}}\n")
    report = read_inputs(*(str(tmp_path / name) for name in ("master.csv", "worker.csv", "config.yaml"))).report
    assert [one.place.line for one in report.problems if "strict" in one.message] == [5]
