"""Which namespaces may use which virtual clusters."""

from __future__ import annotations

import pytest

from paictl.cluster.pods.labels import VC
from paictl.doors.core import DoorOptions
from paictl.doors.views import explain_pod
from paictl.extender.verbs import candidates
from paictl.extender.wire import PreemptArgs, Victims
from paictl.remote.kube.client import Json
from paictl.scheduler.errors import RequestError
from paictl.scheduler.wire import ENABLE, GRANTED
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Harness, gang, pod


def namespace(name: str, grant: str | None) -> Json:
    return {"metadata": {"name": name, "annotations": {} if grant is None else {GRANTED: grant}}}


@pytest.fixture
def guarded() -> Harness:
    """Grants count; the namespace `default` has none yet."""
    made = Harness(spec(), DoorOptions(require_grants=True))
    made.core.namespace_changed(namespace("default", None))
    made.open(NODES)
    return made


@pytest.mark.parametrize("grant", [None, "", "B", "b,a", "AA", "A B", "**"])
def test_a_namespace_without_the_grant_gets_nothing(guarded: Harness, grant: str | None) -> None:
    guarded.core.namespace_changed(namespace("default", grant))
    answer = guarded.ask(gang("g", 1, 4, "A", 1000)[0])
    assert not answer.names
    assert "namespace default was not granted virtual cluster A" in answer.hopeless["n0"]
    assert "kubectl annotate namespace default --overwrite 'paictl.io/virtual-clusters=" in answer.hopeless["n0"]
    assert guarded.reasons_of("g-0") == ["Refused"]
    assert guarded.core.book.pods == {}


@pytest.mark.parametrize("grant", ["A", "B, A", "A,,", "*", "B,*"])
def test_a_namespace_with_the_grant_is_served(guarded: Harness, grant: str) -> None:
    guarded.core.namespace_changed(namespace("default", grant))
    assert guarded.run(gang("g", 1, 4, "A")[0]) in NODES


def test_a_grant_by_labels_and_for_opportunistic_pods_is_needed_as_well(guarded: Harness) -> None:
    labelled = pod("labelled", None, labels={VC: "A"})
    labelled["spec"]["containers"][0]["resources"] = {"limits": {ENABLE: "1", "nvidia.com/gpu": "1"}}
    assert "was not granted" in guarded.ask(labelled).hopeless["n0"]
    assert "was not granted" in guarded.ask(gang("oppo", 1, 1, "A", -1)[0]).hopeless["n0"]


def test_another_namespace_does_not_help(guarded: Harness) -> None:
    guarded.core.namespace_changed(namespace("prod", "A"))
    assert "was not granted" in guarded.ask(gang("g", 1, 4, "A")[0]).hopeless["n0"]


def test_a_grant_that_comes_later_has_the_pod_asked_about_again(guarded: Harness) -> None:
    made = gang("late", 1, 4, "A")[0]
    guarded.ask(made)
    guarded.now += 600
    guarded.reconciler.reconcile()
    assert guarded.server.calls == [], "nobody is asked again without a grant"
    guarded.core.namespace_changed(namespace("default", "A"))
    guarded.now += 10
    guarded.reconciler.reconcile()
    assert guarded.server.calls == ["PATCH pod late-0"]
    assert guarded.run(made) in NODES


def test_a_grant_that_is_taken_away_stops_no_running_pod_and_admits_no_new_one(guarded: Harness) -> None:
    guarded.core.namespace_changed(namespace("default", "A"))
    made = gang("g", 1, 4, "A")[0]
    node = guarded.run(made)
    guarded.core.namespace_gone("default")
    guarded.core.pod_changed(made)
    assert guarded.core.book.holds("uid-g-0")
    assert "was not granted" in guarded.ask(gang("next", 1, 4, "A")[0]).hopeless[node]
    guarded.begin(spec())
    guarded.open(NODES)
    assert guarded.core.book.holds("uid-g-0"), "a restart keeps it as well"


def test_preemption_and_explanations_know_of_it(guarded: Harness) -> None:
    made = gang("g", 1, 4, "A")[0]
    guarded.ask(made)
    with pytest.raises(RequestError, match="was not granted"):
        candidates(guarded.core, PreemptArgs(made, {name: Victims(("x",)) for name in NODES}))
    explained = explain_pod(guarded.core, "default", "g-0")
    assert explained["situation"] == "refused"
    assert "was not granted virtual cluster A" in explained["text"][0]


def test_nothing_is_needed_unless_it_is_asked_for(harness: Harness) -> None:
    harness.core.namespace_changed(namespace("default", "B"))
    assert harness.run(gang("g", 1, 4, "A")[0]) in NODES
