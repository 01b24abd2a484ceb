"""A pod that the API server lets nobody change, such as one with too many annotations, holds up none of the others."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.cluster.pods.reading import MAX_OWN, MAX_POD
from paictl.doors.core import DoorOptions
from paictl.doors.gangs import AFTER
from paictl.doors.reconciler import Reconciler
from paictl.extender.verbs import filter_nodes
from paictl.extender.wire import FilterArgs
from paictl.remote.kube.client import Json, KubeError, NoAnswerError
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import FakeServer, Harness, gang
from tests.unit.extender.test_repair import away, lost

TOO_LONG = KubeError("metadata.annotations: Too long: may not be more than 262144 bytes", status=422)
TOO_LARGE = KubeError("etcdserver: request is too large", status=500)
"""A pod that its owner has filled up to the limit of etcd, with environment variables for instance."""
NO_WEBHOOK = KubeError(
    'Internal error occurred: failed calling webhook "w.example.org": connection refused',
    status=500,
    reason="InternalError",
)
DENIED = KubeError('admission webhook "w.example.org" denied the request: its own database is away', status=500)
"""A webhook chooses the status with which it denies."""


class Strict(FakeServer):
    """Refuses each change of some pods, but ends and evicts them."""

    frozen: tuple[str, ...] = ()
    undeletable: tuple[str, ...] = ()
    answer: KubeError = TOO_LONG

    def request(self, method: str, path: str, body: Any = None, **named: object) -> Json:
        name = path.split("/")[6] if "/pods/" in path else ""
        if method == "PATCH" and name.startswith(self.frozen or ("-",)):
            self.calls.append(f"REFUSED {name}")
            self._bodies.append({})
            raise self.answer
        if method == "DELETE" and name.startswith(self.undeletable or ("-",)):
            raise KubeError("a webhook says no", status=403)
        return super().request(method, path, body, **named)


@pytest.fixture
def strict() -> Harness:
    made = Harness(spec(), DoorOptions(bad_device_deadline=60))
    made.server = Strict()
    made.begin(spec())
    made.open(NODES)
    return made


def server_of(harness: Harness) -> Strict:
    assert isinstance(harness.server, Strict)
    return harness.server


def borrowed(harness: Harness) -> Json:
    """A pod of B that waits for one of the opportunistic pods, which have all nodes."""
    for number in range(4):
        harness.run(gang(f"borrower{number}", 1, 4, "A", -1)[0])
    (mine,) = gang("mine", 1, 4, "B")
    assert not harness.ask(mine).names
    return mine


@pytest.mark.parametrize("answer", [TOO_LONG, NO_WEBHOOK, DENIED, TOO_LARGE])
@pytest.mark.parametrize("frozen", ["borrower", "mine"])
def test_a_victim_is_evicted_although_nothing_can_be_written_into_pods(
    strict: Harness, frozen: str, answer: KubeError
) -> None:
    server_of(strict).frozen, server_of(strict).answer = (frozen,), answer
    borrowed(strict)
    strict.reconciler.reconcile()
    assert len(strict.evictions()) >= 1
    assert "REFUSED" in " ".join(strict.server.calls)


def test_a_victim_that_a_webhook_protects_holds_up_nobody(strict: Harness) -> None:
    client: Any = strict.server
    strict.reconciler = Reconciler(
        client, strict.core, remaining=lambda: 1000, delete_after=0, clock=lambda: strict.now
    )
    borrowed(strict)
    strict.server.refuse["eviction"] = KubeError("a webhook says no", status=403)
    server_of(strict).undeletable = ("borrower",)
    strict.reconciler.reconcile()
    assert strict.reconciler.evicted == 0
    assert "Preempted" not in {event.reason for event in strict.recorded}
    server_of(strict).undeletable = ()
    strict.now += 5
    strict.reconciler.reconcile()
    assert strict.reconciler.evicted == 1


def test_a_waiting_pod_that_cannot_be_annotated_holds_up_no_repair(strict: Harness) -> None:
    for made in gang("g", 2, 4, memberRepairEnable=True):
        strict.run(made)
    for number in range(3):  # one has no place
        strict.ask(gang(f"w{number}", 1, 4)[0])
    server_of(strict).frozen = ("w",)
    for entry in strict.core.table:
        if entry.ref.name.startswith("w"):
            strict.core.book.cancel(entry.ref.uid)
            entry.cached, entry.assumed = None, 0.0
    strict.now += 100
    away(strict, "n1")
    strict.now += AFTER
    strict.reconciler.reconcile()
    assert "REFUSED w0-0" in strict.server.calls, "kube-scheduler was to be made to ask again"
    assert lost(strict) == ["PATCH status g-1", "DELETE pod g-1"]


@pytest.mark.parametrize("undeletable", [False, True])
def test_a_member_whose_status_cannot_be_written_is_given_up(strict: Harness, undeletable: bool) -> None:
    for name in ("a", "b"):
        for made in gang(name, 2, 2, memberRepairEnable=True):
            strict.run(made)
    server_of(strict).frozen = ("a",)
    server_of(strict).undeletable = ("a",) if undeletable else ()
    for node in NODES:
        away(strict, node)
    strict.now += AFTER
    strict.reconciler.reconcile()
    ended = {call.split()[-1] for call in lost(strict) if call.startswith("DELETE")}
    assert ended == ({"b-0", "b-1"} if undeletable else {"a-0", "a-1", "b-0", "b-1"})


def test_an_api_server_that_does_not_answer_ends_the_round(strict: Harness) -> None:
    borrowed(strict)
    strict.server.refuse["eviction"] = NoAnswerError("it is away")
    with pytest.raises(NoAnswerError):
        strict.reconciler.reconcile()


@pytest.mark.parametrize("filler", ["x" * MAX_OWN, "ü" * (MAX_OWN // 2)])
def test_a_pod_that_could_not_be_evicted_gets_no_place(strict: Harness, filler: str) -> None:
    """With the annotations of its binding it would have more than the API server allows, which refuses each change."""
    (made,) = gang("g", 1, 4)
    made["metadata"]["annotations"]["notes"] = filler
    answer = strict.ask(made)
    assert not answer.names
    assert f"more than {MAX_OWN} bytes" in str(answer.hopeless)
    made["metadata"]["annotations"]["notes"] = "x" * 1000
    assert strict.ask(made).names


@pytest.mark.parametrize("filler", ["x" * MAX_POD, "\U0001f600" * (MAX_POD // 4)])
def test_a_pod_that_etcd_would_let_nobody_change_gets_no_place(strict: Harness, filler: str) -> None:
    """Neither an eviction nor a deletion with a grace period is taken then."""
    (made,) = gang("g", 1, 4)
    made["spec"]["containers"][0]["env"] = [{"name": "FILLER", "value": filler}]
    answer = strict.ask(made)
    assert not answer.names
    assert f"more than {MAX_POD} bytes" in str(answer.hopeless)


@pytest.mark.parametrize(
    "filler",
    [
        {"annotations": {"notes": "x" * MAX_OWN}},
        {"finalizers": [f"example.org/{number}{'x' * 1000}" for number in range(MAX_POD // 1000)]},
    ],
)
def test_a_pod_that_is_filled_up_before_its_binding_loses_its_place(strict: Harness, filler: Json) -> None:
    (made,) = gang("g", 1, 4)
    assert strict.ask(made).names
    about = made["metadata"]
    about["annotations"] |= filler.pop("annotations", {})
    about |= filler
    strict.core.pod_changed(made)
    assert not strict.core.book.holds("uid-g-0")


def test_a_pod_is_as_large_as_the_api_server_says(strict: Harness) -> None:
    """kube-scheduler leaves the managers of fields out, which etcd has as well."""
    (made,) = gang("g", 1, 4)
    strict.core.pod_changed({**made, "metadata": {**made["metadata"], "managedFields": [{"manager": "x" * MAX_POD}]}})
    answer = filter_nodes(strict.core, FilterArgs(made, NODES))
    assert f"more than {MAX_POD} bytes" in str(answer.hopeless)


def test_a_pod_whose_images_may_become_too_long_gets_no_place(strict: Harness) -> None:
    """The policy lets each have 1000 characters: an owner could write them once the pod has its devices."""
    (made,) = gang("g", 1, 4)
    made["spec"]["containers"] += [{"name": f"c{number}", "image": "x"} for number in range(300)]
    assert f"more than {MAX_POD} bytes" in str(strict.ask(made).hopeless)


def test_a_pod_that_is_filled_up_in_its_place_keeps_it_over_a_restart(strict: Harness) -> None:
    (made,) = gang("g", 1, 4)
    strict.run(made)
    made["metadata"]["annotations"]["notes"] = "x" * MAX_OWN
    strict.core.pod_changed(made)
    strict.begin(strict.core.spec)
    strict.open(NODES)
    (group,) = strict.core.book.engine.state.groups.by_name.values()
    assert group.virtual is not None
    assert strict.core.book.holds("uid-g-0")
