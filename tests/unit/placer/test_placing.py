"""The placer on a played API server: what is pinned, when, whole gangs, restarts, refusals."""

from __future__ import annotations

import contextlib
import math
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from paictl.cells.spec import ClusterSpec
from paictl.cluster.pods.labels import Rules
from paictl.cluster.pods.nodes import node_status
from paictl.cluster.pods.reading import pinned_node
from paictl.doors import reclaim
from paictl.doors.core import Binding, DoorOptions
from paictl.doors.pod_events import PodEvent
from paictl.doors.table import PodEntry
from paictl.placer import pins as pins_module
from paictl.placer.core import PlacerCore
from paictl.placer.pins import Pinner, pin_patch
from paictl.placer.placing import _Fitting, place_round
from paictl.placer.term import PinReconciler
from paictl.remote.kube.client import Json, KubeError, NoAnswerError
from paictl.scheduler.wire import BIND_INFO, GATE, ISOLATION
from paictl.workload.sharing import Sharing
from tests.unit.extender.conftest import NODES, mig_spec, spec
from tests.unit.extender.harness import FakeServer, gang


def node(name: str, **spec: Any) -> Json:
    """A Ready node with its name as a label, four cores and room for ten pods."""
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4", "pods": "10"}}
    return {"metadata": {"name": name, "labels": {"name": name}}, "spec": spec, "status": status}


class PatchingServer(FakeServer):
    """Takes the patch of a pod as the API server does: lists are replaced as a whole."""

    asking: Callable[[], object] = staticmethod(lambda: None)
    """What happens when it is asked by a dry run."""
    longest = 256 * 1024
    """Bytes that the annotations of a pod may have."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: dict[str, Json] = {}
        """Annotations that were asked about, by pod."""

    def request(self, method: str, path: str, body: Any = None, **named: object) -> Json:
        if path.startswith("/api/v1/nodes/"):
            return super().request(method, path, body, **named)
        noted = ((body or {}).get("metadata") or {}).get("annotations") or {}
        known = self.pods.get("/".join((path.split("/")[4], path.split("/")[6])), {}) if noted else {}
        own = known.get("metadata", {}).get("annotations", {}) if method == "PATCH" else {}
        if noted and sum(len(text or "") for text in (own | noted).values()) > self.longest:
            raise KubeError("metadata.annotations: Too long", status=422)
        if named.get("query") == {"dryRun": "All"}:
            self.asking()
            self.questions[path.split("/")[6]] = noted
            if (error := self.refuse.get(f"ask {path.split('/')[6]}")) is not None:
                raise error
            return {}
        found = super().request(method, path, body, **named)
        if method == "DELETE":
            del self.pods["/".join((path.split("/")[4], path.split("/")[6]))]
        if method == "PATCH" and "spec" in body:
            name = found["metadata"]["name"]
            if (error := self.refuse.get(f"pin {name}")) is not None:
                raise error
            found["spec"].pop("schedulingGates")
            found["spec"]["affinity"] = body["spec"]["affinity"]
        return found


class Placer:
    """A placer without threads."""

    server_type = PatchingServer
    sharing = Sharing()
    require_grants = False

    def __init__(self, cells: ClusterSpec | None = None) -> None:
        self.server = self.server_type()
        self.cells = cells or spec()
        self.now = 1000.0
        self.begin()

    def begin(self) -> None:
        """A new process."""
        self.recorded: list[PodEvent] = []
        options = DoorOptions(
            rules=Rules(skus=self.cells.sku_types), sharing=self.sharing, require_grants=self.require_grants
        )
        self.core = PlacerCore(self.cells, options, self.recorded.append, wall=lambda: self.now, clock=lambda: self.now)
        client: Any = self.server
        self.server.locked = self.core.lock._is_owned  # type: ignore[attr-defined]
        self.pinner = Pinner(client, self.core, remaining=lambda: math.inf)
        self.reconciler = PinReconciler(client, self.core, remaining=lambda: math.inf, clock=lambda: self.now)
        self.core.namespace_changed({"metadata": {"name": "default", "labels": {GATE: "enabled"}}})
        for name in NODES:
            self.core.node_changed(node_status(node(name)))
        self.prepare()
        self.tell()
        self.core.open()

    def prepare(self) -> None:
        """What a process knows beside nodes before it hears of pods."""

    def tell(self) -> None:
        """What the informer says."""
        for one in self.server.pods.values():
            self.core.pod_changed(one)

    def create(self, pods: Iterable[Json], **changes: Any) -> None:
        for one in pods:
            one["spec"] |= {"schedulingGates": [{"name": GATE}], **changes}
            self.server.pods[f"default/{one['metadata']['name']}"] = one
        self.tell()

    def place(self) -> list[list[Binding]]:
        """Place; the pins to be written, by gang."""
        gangs: list[list[Binding]] = []
        place_round(self.core, gangs.append)
        return gangs

    def round(self, most: int = 1000) -> None:
        """Place, and write so many of the pins before the process would die."""
        gangs = [pins for pins in self.place() if not self.pinner.refused(pins)]
        for pin in [pin for pins in gangs for pin in pins][:most]:
            self.pinner.send(pin)
        self.tell()

    def node(self, name: str) -> str:
        return pinned_node(self.server.pods[f"default/{name}"])

    def reasons(self, name: str) -> list[str]:
        return [one.reason for one in self.recorded if one.pod.name == name]

    def delete(self, name: str) -> None:
        self.core.pod_gone(self.server.pods.pop(f"default/{name}")["metadata"]["uid"])


@pytest.fixture
def placer() -> Placer:
    return Placer()


def test_a_pod_gets_its_devices_and_its_node_in_one_patch(placer: Placer) -> None:
    own = [{"matchExpressions": [{"key": "name", "operator": "In", "values": ["n1", "n2"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": own}}
    placer.create(gang("a", 1, 2), affinity={"nodeAffinity": required})
    placer.round()
    made = placer.server.pods["default/a-0"]
    node = placer.node("a-0")
    assert node in ("n1", "n2")
    (term,) = made["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == own[0]["matchExpressions"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": [node]}]
    assert len(made["metadata"]["annotations"][ISOLATION].split(",")) == 2
    assert [call for call in placer.server.calls if "PATCH" in call] == ["PATCH pod a-0"]


def test_a_pod_on_mig_instances_is_told_gpu_and_instance() -> None:
    placer = Placer(mig_spec(2))
    placer.create(gang("a", 1, 3))
    placer.round()
    noted = placer.server.pods["default/a-0"]["metadata"]["annotations"]
    assert noted[ISOLATION] == "0:0,0:1,1:0"
    placer.begin()
    placer.create(gang("b", 1, 1))
    placer.round()
    assert placer.node("b-0") == placer.node("a-0")
    assert placer.server.pods["default/b-0"]["metadata"]["annotations"][ISOLATION] == "1:1"


def test_a_gang_waits_until_all_members_are_there(placer: Placer) -> None:
    first, second = gang("g", 2, 4)
    placer.create([first])
    placer.round()
    assert placer.node("g-0") == ""
    assert not placer.recorded, "the other one may come in a moment"
    placer.now += 3
    placer.round()
    assert placer.node("g-0") == ""
    assert "1 of 2 pods" in placer.recorded[-1].message
    placer.create([second])
    placer.round()
    assert {placer.node("g-0"), placer.node("g-1")} <= set(NODES)


@contextlib.contextmanager
def ending(placer: Placer, names: list[str]) -> Iterator[Callable[[], None]]:
    """A round, after the first gang of which pods end."""

    def give_way() -> None:
        while names:
            placer.delete(names.pop())

    with placer.core.guarded():
        yield give_way


@pytest.mark.parametrize("priority", [0, -1])
def test_devices_that_become_free_within_a_round_are_for_who_waits_longer(
    placer: Placer, monkeypatch: pytest.MonkeyPatch, priority: int
) -> None:
    pods = 2 if priority == 0 else len(NODES)
    names = [f"runs-{index}" for index in range(pods)]
    placer.create(gang("runs", pods, 4, priority=priority))
    placer.round()
    placer.create(gang("older", pods, 4, priority=priority))
    placer.create(gang("younger", pods, 4, priority=priority))
    placer.core.news.clear()

    with monkeypatch.context() as patch:
        patch.setattr(placer.core, "sharing", lambda: ending(placer, names))
        placer.round()
    assert [placer.node(f"{name}-0") for name in ("older", "younger")] == ["", ""]
    assert placer.core.news.is_set(), "the next round begins at once"
    placer.round()
    assert placer.node("older-0")
    assert not placer.node("younger-0")


def test_what_becomes_free_within_a_round_is_not_lent_while_its_owner_waits(
    placer: Placer, monkeypatch: pytest.MonkeyPatch
) -> None:
    placer.create(gang("runs", 2, 4))
    placer.create(gang("others", len(NODES) - 2, 4, priority=-1))
    placer.round()
    placer.create(gang("waits", 2, 4))
    placer.create(gang("lent", 2, 4, vc="B", priority=-1))
    with monkeypatch.context() as patch:
        patch.setattr(placer.core, "sharing", lambda: ending(placer, ["runs-0", "runs-1"]))
        placer.round()
    placer.round()
    assert placer.node("waits-0")
    assert not placer.node("lent-0")


def test_a_gang_that_does_not_fit_waits_whole(placer: Placer) -> None:
    placer.create(gang("runs", 2, 4))
    placer.round()
    placer.create(gang("waits", 2, 4))
    placer.round()
    assert [placer.node(f"waits-{i}") for i in range(2)] == ["", ""]
    assert placer.reasons("waits-0") == ["Waiting"]
    placer.delete("runs-0")
    placer.delete("runs-1")
    placer.round()
    assert all(placer.node(f"waits-{i}") for i in range(2))


def test_the_higher_priority_comes_first(placer: Placer) -> None:
    placer.create(gang("low", 3, 4))
    placer.create(gang("high", 3, 4, priority=7))
    placer.round()
    assert placer.node("high-0")
    assert not placer.node("low-0")


def test_victims_are_evicted_before_the_pin(placer: Placer) -> None:
    placer.create(gang("low", 4, 4, priority=-1))
    placer.round()
    placer.create(gang("high", 2, 4, priority=5))
    placer.round()
    assert placer.node("high-0") == ""
    placer.reconciler.reconcile()
    evicted = [name for name in placer.server.calls if name.startswith("POST eviction")]
    assert len(evicted) == 4, "the whole gang goes"
    for i in range(4):
        placer.delete(f"low-{i}")
    placer.round()
    assert placer.node("high-0")
    assert placer.node("high-1")


@pytest.mark.parametrize("written", range(9))
def test_a_process_killed_between_two_pins_leaves_no_gang_in_part(placer: Placer, written: int) -> None:
    """The next one counts pinned pods that kube-scheduler has not bound, and finishes the gang beside a rival."""
    placer.create(gang("g", 8, 1))
    placer.round(written)
    placer.create(gang("other", 3, 4, priority=0, vc="A"))
    placer.begin()
    placer.round()
    held = [placer.server.pods[f"default/g-{i}"] for i in range(8)]
    places = [(pinned_node(one), one["metadata"]["annotations"].get(ISOLATION)) for one in held]
    assert all(node for node, _ in places), places
    assert len(set(places)) == 8, "no device twice"
    assert not placer.node("other-0")


def test_a_pinned_pod_that_is_not_bound_holds_its_devices(placer: Placer) -> None:
    placer.create(gang("a", 3, 4))
    placer.round()
    before = placer.core.book.engine.state.digest()
    placer.begin()
    assert placer.core.book.engine.state.digest() == before


def test_a_pod_is_pinned_once_although_the_news_of_it_is_late(placer: Placer) -> None:
    """Under load the next round comes before the watch: a pin that is sent again costs the API server a request."""
    placer.create([*gang("a", 2, 4), *gang("b", 1, 4)])
    for gangs in placer.place():
        for pin in gangs:
            assert placer.pinner.send(pin) == ""
    calls = len(placer.server.calls)
    assert placer.place() == []
    placer.tell()
    assert placer.place() == []
    assert len(placer.server.calls) == calls


def test_an_annotation_on_a_gated_pod_is_not_believed(placer: Placer) -> None:
    placer.create(gang("a", 1, 4))
    placer.round()
    text = placer.server.pods["default/a-0"]["metadata"]["annotations"][BIND_INFO]
    liar = gang("liar", 1, 4)
    liar[0]["metadata"]["annotations"][BIND_INFO] = text
    placer.create(liar)
    assert not placer.core.book.holds("uid-liar-0")


@pytest.mark.parametrize("node_name", ["", "n0"])
@pytest.mark.parametrize("later", [True, False])
def test_a_pin_that_anybody_may_have_written_holds_nothing(placer: Placer, node_name: str, later: bool) -> None:
    """Whoever creates a pod in a namespace without the policies can write what a pin looks like."""
    placer.create(gang("a", 1, 4))
    placer.round()
    forged = placer.server.pods.pop("default/a-0")
    placer.core.pod_gone(forged["metadata"]["uid"])
    forged["metadata"] |= {"name": "liar", "namespace": "open", "uid": "uid-liar"}
    if node_name:
        forged["spec"]["nodeName"] = pinned_node(forged)
    placer.server.pods["open/liar"] = forged
    if later:
        placer.tell()
    else:
        placer.begin()
    assert not placer.core.book.holds("uid-liar")
    assert placer.reasons("liar") == ["DevicesUnknown"]
    placer.core.namespace_changed({"metadata": {"name": "open", "labels": {GATE: "enabled"}}})
    assert placer.core.book.holds("uid-liar"), "it is counted once the policies guard it"


def test_a_gated_pod_of_an_open_namespace_waits_and_is_told_the_label(placer: Placer) -> None:
    (pod,) = gang("a", 1, 4)
    pod["metadata"]["namespace"] = "open"
    pod["spec"]["schedulingGates"] = [{"name": GATE}]
    placer.core.pod_changed(pod)
    assert placer.place() == []
    assert "kubectl label namespace open paictl.io/cells=enabled" in placer.recorded[-1].message


def test_a_refused_patch_is_sent_again(placer: Placer) -> None:
    placer.create(gang("g", 2, 4))
    placer.server.refuse["pin g-1"] = KubeError("a webhook says no", status=400)
    placer.round()
    assert (bool(placer.node("g-0")), placer.node("g-1")) == (True, "")
    assert "a webhook says no" in placer.recorded[-1].message
    placer.server.refuse.clear()
    placer.now += 2
    placer.round()
    assert placer.node("g-1") not in ("", placer.node("g-0"))


@pytest.mark.parametrize(
    "error",
    [
        KubeError("a policy says no", status=422),
        KubeError('Internal error occurred: failed calling webhook "w.example.org"', status=500),
        KubeError('admission webhook "w.example.org" denied the request: it has failed', status=500),
    ],
)
def test_a_gang_that_would_be_refused_in_part_goes_nowhere_and_keeps_no_place(placer: Placer, error: KubeError) -> None:
    placer.create(gang("g", 2, 4))
    placer.server.refuse["ask g-1"] = error
    placer.round()
    assert [placer.node("g-0"), placer.node("g-1")] == ["", ""]
    assert [placer.reasons("g-0"), placer.reasons("g-1")] == [["PinFailed"], ["PinFailed"]]
    assert f"its gang cannot be pinned as a whole: pod g-1: {error.message}" in placer.recorded[-1].message
    placer.create(gang("other", 4, 4, priority=-1))
    placer.round()
    assert all(placer.node(f"other-{i}") for i in range(4)), "the place is free for others"
    for i in range(4):
        placer.delete(f"other-{i}")
    placer.server.refuse.clear()
    placer.round()
    assert not placer.node("g-0"), "not before the pause is over"
    placer.now += 6
    placer.round()
    assert len({placer.node("g-0"), placer.node("g-1")} - {""}) == 2


def test_a_gang_whose_places_no_annotation_can_hold_goes_nowhere(placer: Placer) -> None:
    placer.server.longest = 200
    placer.create(gang("g", 2, 4))
    placer.round()
    assert [placer.node("g-0"), placer.node("g-1")] == ["", ""]
    assert (
        "its gang cannot be pinned as a whole: pod g-0: metadata.annotations: Too long" in placer.recorded[-1].message
    )
    assert not placer.core.book.holds("uid-g-0"), "no device is held"


def test_the_places_of_a_gang_are_asked_about_once_for_the_pod_with_the_longest_annotations(placer: Placer) -> None:
    first, second, third = gang("g", 3, 4)
    second["metadata"]["annotations"]["note"] = "x" * 500
    placer.create([first, second, third])
    placer.round()
    places = {name: noted[BIND_INFO] for name, noted in placer.server.questions.items()}
    assert {name for name, text in places.items() if "affinityGroupBindInfo" in text} == {"g-1"}
    assert max(len(places["g-0"]), len(places["g-2"])) < 40, "of the others only the node"
    pinned = [placer.server.pods[f"default/g-{i}"]["metadata"]["annotations"][BIND_INFO] for i in range(3)]
    assert all("affinityGroupBindInfo" in text for text in pinned), "each pod has all places"


def test_the_pods_of_a_gang_are_asked_about_at_the_same_time(placer: Placer) -> None:
    """Each question waits here until all four have been sent: one after the other they would wait for ever."""
    all_asked = threading.Barrier(4)
    placer.server.asking = lambda: all_asked.wait(10)
    placer.create(gang("g", 4, 2))
    placer.round()
    assert not all_asked.broken
    assert all(placer.node(f"g-{i}") for i in range(4))


@pytest.mark.parametrize("seed", range(5))
def test_what_is_remembered_of_nodes_is_what_would_be_found_now(
    placer: Placer, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Gangs whose pods demand CPU come and go; before each decision the nodes are looked at once more."""
    dice, kept, asked = random.Random(seed), _Fitting.nodes, []  # noqa: S311

    def nodes(self: _Fitting, entry: PodEntry) -> list[str]:
        found = kept(self, entry)
        names = [name for name in self._core.health.nodes if name not in self._excluded]
        assert found == [name for name in names if not reclaim.obstacle_on(self._core, entry, name)]
        asked.append(len(found))
        return found

    monkeypatch.setattr(_Fitting, "nodes", nodes)
    for number in range(12):
        pods = gang(f"g{number}", dice.choice([1, 2, 4]), dice.choice([1, 2]), dice.choice("AB"), dice.choice([-1, 0]))
        for pod in pods:
            cores = dice.choice([1, 2, 3]) if dice.random() < 0.2 else 2
            pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(cores)}}
        placer.create(pods)
        placer.round()
        if dice.random() < 0.3:
            placer.core.node_changed(node_status(node("n3", unschedulable=dice.random() < 0.5)))
        if dice.random() < 0.4:
            placer.delete(dice.choice(sorted(placer.server.pods)).partition("/")[2])
    assert {0, len(NODES)} < set(asked), "from empty nodes to full ones"


@pytest.mark.parametrize("workers", [4, 2])
def test_a_gang_about_which_not_all_was_asked_is_not_pinned_when_the_term_ends(
    monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(pins_module, "WORKERS", workers)  # with two, the other questions wait and are cancelled
    placer = Placer()
    placer.create(gang("g", 4, 2))
    (pins,) = placer.place()
    asked, ended = threading.Event(), threading.Event()

    def ask() -> None:
        asked.set()
        ended.wait(10)

    placer.server.asking = ask
    placer.pinner.pin_soon(pins)
    assert asked.wait(10)
    end = time.monotonic() + 10
    while placer.pinner._asking._work_queue.qsize() < 4 - workers and time.monotonic() < end:
        time.sleep(0.01)
    placer.pinner.stop()
    ended.set()
    entries = [placer.core.table.by_uid[f"uid-g-{i}"] for i in range(4)]
    while any(entry.binding for entry in entries) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(entry.binding for entry in entries), "they were given up"
    assert not any(placer.node(f"g-{i}") for i in range(4))


@pytest.mark.parametrize(("pinned", "words"), [(0, ("ask", "pin")), (1, ("ask", "pin")), (1, ("pin",)), (2, ("pin",))])
def test_a_gang_is_whole_a_moment_after_the_api_server_is_back(
    placer: Placer, pinned: int, words: tuple[str, ...]
) -> None:
    """It goes away before the first pin or after it, for a minute: a refused one would rest for half a minute."""
    placer.create(gang("g", 3, 4))
    placer.round(pinned)
    away = [f"{word} g-{i}" for i in range(pinned, 3) for word in words]
    placer.server.refuse |= dict.fromkeys(away, NoAnswerError("connection refused"))
    for uid in (f"uid-g-{i}" for i in range(pinned, 3)):
        placer.core.table.by_uid[uid].binding = False  # its attempt has just ended in vain
    for _ in range(60):
        placer.now += 1
        placer.round()
    assert [bool(placer.node(f"g-{i}")) for i in range(3)] == [i < pinned for i in range(3)]
    assert not [one for one in placer.recorded if one.reason == "PinFailed"], "nobody has refused anything"
    placer.server.refuse.clear()
    placer.now += 1
    placer.round()
    assert len({placer.node(f"g-{i}") for i in range(3)} - {""}) == 3


def test_a_slow_webhook_keeps_no_gang_back(placer: Placer) -> None:
    """The dry run gets no answer in time, and the API server answers everything else."""
    placer.create(gang("g", 2, 4))
    placer.server.refuse["ask g-1"] = NoAnswerError("timed out")
    placer.round()
    assert placer.node("g-0")
    assert placer.node("g-1")


@pytest.mark.parametrize(
    "error",
    [
        KubeError("somebody changed it", status=409),
        KubeError("etcdserver: timed out", status=500),
        KubeError("admission webhook w does not support dry run", status=400),
    ],
)
def test_what_passes_or_nobody_can_know_keeps_no_gang_back(placer: Placer, error: KubeError) -> None:
    placer.create(gang("g", 2, 4))
    placer.server.refuse["ask g-1"] = error
    placer.round()
    assert placer.node("g-0")
    assert placer.node("g-1")


def test_a_node_that_the_pod_excludes_is_never_chosen(placer: Placer) -> None:
    placer.create(gang("a", 1, 1), nodeSelector={"name": "n3"})
    placer.core.node_changed(node_status(node("n0", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])))
    placer.round()
    assert placer.node("a-0") == "n3"
    placer.delete("a-0")
    placer.create(gang("b", 4, 4, priority=-1))
    placer.round()
    assert placer.node("b-0") == "", "four nodes are needed, and one repels"


def cores(amount: str) -> list[Json]:
    return [{"name": "c", "resources": {"requests": {"cpu": amount}}}]


def test_a_gang_whose_pods_do_not_fit_together_waits_whole_and_is_told(placer: Placer) -> None:
    placer.create(gang("g", 2, 1), containers=cores("3"))
    placer.round()
    assert (placer.node("g-0"), placer.node("g-1")) == ("", "")
    assert "Insufficient cpu" in placer.recorded[-1].message
    assert not any(placer.core.book.holds(f"uid-g-{i}") for i in range(2)), "nothing is held"


def test_a_pod_that_no_node_has_cpu_for_waits_and_is_told(placer: Placer) -> None:
    placer.create(gang("g", 1, 1), containers=cores("5"))
    placer.round()
    assert placer.node("g-0") == ""
    assert placer.reasons("g-0") == ["Waiting"]


def test_cpu_that_is_freed_lets_the_gang_go(placer: Placer) -> None:
    for i in range(3):
        placer.create(gang(f"a{i}", 1, 1), containers=cores("3"))
    placer.round()
    placer.create(gang("b", 1, 1), containers=cores("3"))
    placer.round()
    assert placer.node("b-0") == ""
    placer.delete("a0-0")
    placer.round()
    assert placer.node("b-0")


def test_terms_of_the_user_are_alternatives_and_each_is_narrowed() -> None:
    terms = [{"matchExpressions": [{"key": str(i), "operator": "Exists"}]} for i in range(2)]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    pod = {"metadata": {"uid": "u"}, "spec": {"affinity": affinity}}
    body = pin_patch(pod, "n1", {})
    found = body["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["matchExpressions"] for term in found["nodeSelectorTerms"]] == [
        one["matchExpressions"] for one in terms
    ]
    assert all(term["matchFields"][0]["values"] == ["n1"] for term in found["nodeSelectorTerms"])
