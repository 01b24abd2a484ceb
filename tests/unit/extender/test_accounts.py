"""The accounts of a door: against an integral that is kept another way, over kills, midnights and restarts."""

from __future__ import annotations

import os
import random
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from paictl.cluster.kubernetes.cluster import KubernetesCluster
from paictl.cluster.usagebooks import UsageStore
from paictl.cluster.values import ClusterError
from paictl.doors.accounts import Accountant
from paictl.doors.core import DoorOptions
from paictl.doors.metrics import DoorMetrics
from paictl.remote.kube.client import Json
from paictl.scheduler.wire import BIND_INFO, GRANTED, SCHEDULING_SPEC
from paictl.workload.sharing import read_sharing
from paictl.workload.usage import UsageKind
from tests.unit.cluster.fakekube import FakeKube
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Harness, gang

BEGIN = datetime(2026, 11, 24, 23, 50, tzinfo=UTC).timestamp()
HOUR = 3_600_000
OPERATIONS = 20_000 if os.environ.get("PAICTL_SOAK") else 400


class Office:
    """A door with its accountant, on a server that outlives both."""

    def __init__(self, options: DoorOptions | None = None) -> None:
        self.kube = FakeKube()
        self.harness = Harness(spec(), options)
        self.harness.now = BEGIN
        self.bound: dict[str, Json] = {}
        self.start()

    def start(self) -> None:
        """A process begins, with the pods that run."""
        self.store = UsageStore(self.kube, "paictl-system")
        self.accounts = Accountant(self.kube, self.harness.core, self.store, remaining=lambda: 60.0)
        self.harness.open(NODES)
        for pod in self.bound.values():
            self.accounts.pod_changed(pod)
        assert self.accounts.attempt()

    def kill(self) -> None:
        """The process is gone with all that it had not written, and another one comes."""
        self.harness.begin(spec())
        self.start()

    def run(self, pod: Json) -> str:
        """A pod gets its place and is bound; its uid, or nothing if there is no room."""
        if not self.harness.ask(pod).names:
            self.harness.delete(pod["metadata"]["name"], pod["metadata"]["namespace"])
            return ""
        self.harness.run(pod)
        pod["status"] = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": self.stamp()}]}
        self.bound[pod["metadata"]["uid"]] = pod
        self.tell(pod)
        return str(pod["metadata"]["uid"])

    def tell(self, pod: Json) -> None:
        self.harness.core.pod_changed(pod)
        self.accounts.pod_changed(pod)

    def end(self, uid: str, *, told: bool = True, phase: str = "Succeeded") -> None:
        """A pod comes to its end, whether anybody is there to hear of it or not; its object stays."""
        pod = self.bound.pop(uid)
        done = {"state": {"terminated": {"finishedAt": self.stamp()}}}
        pod["status"] |= {"phase": phase, "containerStatuses": [done]}
        self.kube.objects[f"/api/v1/pods/{pod['metadata']['name']}"] = pod
        self.harness.server.pods.pop(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
        if told:
            self.harness.core.pod_gone(uid)
            self.accounts.pod_gone(uid)

    def stamp(self) -> str:
        return f"{datetime.fromtimestamp(self.harness.now, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def books(self, *months: str) -> Counter[tuple[str, str, str]]:
        """Device-milliseconds by VC, user and kind, from the server alone."""
        found: Counter[tuple[str, str, str]] = Counter()
        store = UsageStore(self.kube, "paictl-system")
        for month in months or ("2026-11", "2026-12"):
            for book in store.of_month(datetime.fromisoformat(f"{month}-01")):
                for one in book.amounts():
                    found[one.vc, one.user, str(one.kind)] += one.amount
        return found


@pytest.fixture
def office() -> Office:
    return Office()


def test_a_pod_counts_from_its_binding_to_its_end_in_the_days_in_which_it_ran(office: Office) -> None:
    uid = office.run(gang("job", 1, 4)[0])
    office.harness.now += 3600
    assert office.accounts.attempt()
    office.end(uid)
    office.harness.now += 3600
    assert office.accounts.attempt()
    assert office.books()["A", "default", "guaranteed"] == 4 * HOUR
    by_day = [
        sum(one.amount for one in book.amounts() if one.kind is UsageKind.GUARANTEED)
        for book in UsageStore(office.kube, "paictl-system").of_month(datetime(2026, 11, 1, tzinfo=UTC))
    ]
    assert by_day == [4 * HOUR // 6, 4 * HOUR * 5 // 6], "ten minutes before midnight, fifty after it"


def test_jobs_of_paictl_are_their_users_and_nobody_else_can_say_so(office: Office) -> None:
    mine, forged = gang("mine", 1, 2)[0], gang("forged", 1, 2, "B")[0]
    for pod in (mine, forged):
        pod["metadata"]["annotations"]["paictl.io/key"] = "ann~train"
    forged["metadata"]["annotations"][SCHEDULING_SPEC] = forged["metadata"]["annotations"][SCHEDULING_SPEC].replace(
        "default/forged", "paictl-jobs/mine2"
    )
    mine["metadata"]["namespace"] = "paictl-jobs"
    office.run(mine)
    office.run(forged)
    office.harness.now += 60
    office.accounts.attempt()
    assert office.books()["A", "ann", "guaranteed"] == 2 * 60_000
    assert office.books()["B", "default", "guaranteed"] == 2 * 60_000


def test_what_an_eviction_cut_off_is_lost_and_what_ended_well_is_not(office: Office) -> None:
    well, evicted = office.run(gang("well", 1, 2)[0]), office.run(gang("evicted", 1, 4)[0])
    office.harness.now += 100
    pod = office.bound[evicted]
    pod["status"]["conditions"].append({"type": "DisruptionTarget", "status": "True"})
    office.tell(pod)
    office.end(evicted, phase="Failed")
    office.end(well)
    office.accounts.attempt()
    assert office.books()["A", "default", "guaranteed"] == 600_000
    assert office.books()["A", "default", "lost"] == 400_000


def test_a_group_that_loses_its_guarantee_counts_as_opportunistic_from_then_on(office: Office) -> None:
    lazy = gang("lazy", 1, 4, lazyPreemptionEnable=True)
    office.run(lazy[0])
    office.harness.now += 50
    strong = [office.run(pod) for i in range(8) for pod in gang(f"strong{i}", 1, 4, priority=5)]
    assert any(strong)
    office.harness.now += 50
    office.accounts.attempt()
    books = office.books()
    area = 4 * 100_000 + 4 * 50_000 * sum(map(bool, strong))
    assert books["A", "default", "guaranteed"] + books["A", "default", "opportunistic"] == area
    assert books["A", "default", "opportunistic"] == 4 * 50_000


def test_who_ended_while_nobody_was_there_counts_until_its_end(office: Office) -> None:
    uid = office.run(gang("job", 1, 4)[0])
    office.accounts.attempt()
    office.harness.now += 100
    office.end(uid, told=False)
    office.harness.now += 100
    office.kill()
    assert office.books()["A", "default", "guaranteed"] == 400_000


def test_who_ended_and_left_nothing_counts_until_the_last_record(office: Office) -> None:
    uid = office.run(gang("job", 1, 4)[0])
    office.harness.now += 60
    office.accounts.attempt()
    office.harness.now += 30
    office.end(uid, told=False)
    office.kube.objects.pop("/api/v1/pods/job-0")
    office.kill()
    assert office.books()["A", "default", "guaranteed"] == 240_000


def test_another_process_that_writes_is_not_overwritten(office: Office) -> None:
    other = UsageStore(office.kube, "paictl-system")
    book = other.newest(datetime.fromtimestamp(office.harness.now, UTC))
    assert book is not None
    record = book.record(book.until)
    assert record is not None
    other.put(record)
    office.harness.now += 60
    assert not office.accounts.attempt(), "it writes no more"
    assert "another process has written the accounts of 2026-11-24" in office.accounts.problem


def test_promises_stand_while_nobody_schedules(office: Office) -> None:
    office.harness.now += 3600
    office.kill()
    promised = {key[0]: amount for key, amount in office.books().items() if key[2] == "promised"}
    assert set(promised) == {"A", "B"}
    assert all(amount % HOUR == 0 for amount in promised.values())


def test_a_day_of_more_jobs_than_an_object_holds_is_told_by_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.cluster.usagebooks._MOST", 600)
    office = Office()
    for number in range(40):
        office.end(office.run(gang(f"job{number}-{hash(str(number))}", 1, 1)[0]))
    long = office.run(gang("long", 1, 1)[0])
    office.harness.now += 10
    office.end(long)
    office.accounts.attempt()
    assert office.books()["A", "default", "guaranteed"] == 10_000


def test_a_damaged_day_is_named_and_what_to_do(office: Office) -> None:
    (path,) = [path for path in office.kube.objects if "usagebooks" in path]
    office.kube.objects[path]["spec"]["data"] = "bm9uZQ=="
    with pytest.raises(ClusterError, match="the accounts of this day are corrupt") as caught:
        office.books()
    assert caught.value.where == "usagebook paictl-system/day-2026-11-24"


# --- what was used lately


ORDER = DoorOptions(sharing=read_sharing({"opportunistic-order": {"by": "decayed-use", "half-life": "1h"}}))


def lately(office: Office) -> dict[str, float]:
    """Device hours without a guarantee by VC, as they count now."""
    found = office.accounts.used_lately()
    assert found is not None
    return {vc: amount / HOUR for (vc, _), amount in found.items()}


def test_use_without_a_guarantee_decays_and_outlives_the_process() -> None:
    office = Office(ORDER)
    uid = office.run(gang("lent", 1, 4, "A", priority=-1)[0])
    office.run(gang("own", 1, 4, "A")[0])
    office.run(gang("runs", 1, 4, "B", priority=-1)[0])
    office.harness.now += 3600  # over midnight
    office.end(uid)
    once = 4 / 0.693147 / 2
    assert lately(office) == pytest.approx({"A": once, "B": once}, rel=1e-5)
    office.harness.now += 3600
    assert office.accounts.attempt()
    before = lately(office)
    assert before == pytest.approx({"A": once / 2, "B": once * 1.5}, rel=1e-5)
    office.kill()
    assert lately(office) == before


def test_where_it_was_not_written_down_the_days_say_what_was_used() -> None:
    office = Office()
    office.run(gang("runs", 1, 4, "B", priority=-1)[0])
    uid = office.run(gang("lent", 1, 4, "A", priority=-1)[0])
    office.harness.now += 3600
    office.end(uid)
    assert office.accounts.attempt()
    assert office.accounts.used_lately() is None
    office.harness.options = ORDER
    office.kill()
    once = 4 / 0.693147 / 2
    assert lately(office) == pytest.approx({"A": once, "B": once}, rel=0.01), "evenly on each day"
    office.harness.options = DoorOptions()
    office.kill()
    assert office.accounts.used_lately() is None


def test_a_report_of_the_cluster_adds_up(office: Office) -> None:
    office.run(gang("job", 1, 4)[0])
    office.harness.now += 1800
    office.accounts.attempt()
    cluster: Any = KubernetesCluster(office.kube, "test")
    found = cluster.usage(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))
    assert found.end.timestamp() == office.harness.now
    assert found.since.timestamp() == BEGIN
    assert sum(one.amount for one in found.amounts if one.kind is UsageKind.GUARANTEED) == 2 * HOUR


def test_the_books_are_the_integral_of_what_was_held_whatever_is_killed() -> None:
    dice = random.Random(7)  # noqa: S311
    office = Office()
    area: Counter[tuple[str, bool]] = Counter()
    running: dict[str, tuple[str, bool, int]] = {}
    kills = 0
    for number in range(OPERATIONS):
        match dice.randrange(8):
            case 0 | 1 | 2:
                vc, priority, leaves = dice.choice("AB"), dice.choice((0, -1)), dice.choice((1, 2, 4))
                if uid := office.run(gang(f"g{number}", 1, leaves, vc, priority)[0]):
                    running[uid] = vc, priority >= 0, leaves
            case 3 | 4 if running:
                uid = dice.choice(list(running))
                del running[uid]
                office.end(uid, told=dice.random() < 0.8)
                assert office.accounts.book is not None
                if uid in office.accounts.book.ledger:  # nobody has heard of it
                    office.kill()
            case 5:
                office.accounts.attempt()
            case 6 if dice.random() < 0.3:
                kills += 1
                office.kill()
            case _:
                span = dice.choice((1, 30, 60, 3600, 30_000))
                office.harness.now += span
                for vc, guaranteed, leaves in running.values():
                    area[vc, guaranteed] += leaves * span * 1000
    office.harness.now += 10  # not in the seconds after midnight, in which nothing is written
    for vc, guaranteed, leaves in running.values():
        area[vc, guaranteed] += leaves * 10_000
    assert office.accounts.attempt()
    books: Counter[tuple[str, bool]] = Counter()
    months = [f"{2026 + (10 + i) // 12}-{(10 + i) % 12 + 1:02}" for i in range(40)]
    for (vc, _, kind), amount in office.books(*months).items():
        if kind in ("guaranteed", "opportunistic"):
            books[vc, kind == "guaranteed"] += amount
    assert books == area
    assert kills > 5


def test_prometheus_reads_the_present_day(office: Office) -> None:
    metrics = DoorMetrics(lambda: office.harness.core)
    metrics.device_time = office.accounts.in_use
    office.run(gang("job", 1, 4)[0])
    office.harness.now += 60
    text = metrics.text().decode()
    assert 'paictl_extender_device_seconds_total{class="guaranteed",vc="A"} 240.0' in text
    assert 'paictl_extender_device_seconds_total{class="promised",vc="B"} 240.0' in text


def test_a_pod_whose_node_has_a_fast_clock_is_not_counted_twice(office: Office) -> None:
    uid = office.run(gang("job", 1, 4)[0])
    office.harness.now += 60
    office.end(uid)
    office.accounts.attempt()
    fast = office.kube.objects["/api/v1/pods/job-0"]["status"]["containerStatuses"][0]["state"]["terminated"]
    fast["finishedAt"] = f"{datetime.fromtimestamp(office.harness.now + 20, UTC):%Y-%m-%dT%H:%M:%SZ}"
    office.harness.now += 30
    office.kill()
    assert office.books()["A", "default", "guaranteed"] == 240_000


def test_right_after_midnight_nothing_is_written_so_that_late_news_finds_its_day(office: Office) -> None:
    office.run(gang("job", 1, 4)[0])
    office.harness.now += 602
    office.accounts.attempt()
    (day,) = UsageStore(office.kube, "paictl-system").of_month(datetime(2026, 11, 1, tzinfo=UTC))
    assert day.until <= day.day + 86_400_000
    office.harness.now += 10
    office.accounts.attempt()
    assert office.books()["A", "default", "guaranteed"] == 4 * 612_000


def test_a_clock_that_is_set_back_takes_nothing_away(office: Office) -> None:
    uid = office.run(gang("job", 1, 4)[0])
    office.harness.now += 300
    office.accounts.attempt()
    office.harness.now -= 200
    office.end(uid)
    office.accounts.attempt()
    assert office.books()["A", "default", "guaranteed"] == 1_200_000


def test_a_pod_that_invents_its_place_is_on_nobodys_account(office: Office) -> None:
    """Made with a node and annotations of its owner's choice, and over before the next process begins."""
    office.run(gang("real", 1, 4)[0])
    office.accounts.attempt()
    for vc, devices, granted in (("B", 4, ""), ("A", 2, "A")):
        pod = gang(f"forged-{vc}".lower(), 1, 4, vc)[0]
        info = yaml.safe_load(office.bound["uid-real-0"]["metadata"]["annotations"][BIND_INFO])
        info["leafCellIsolation"] = list(range(devices))
        pod["metadata"]["annotations"][BIND_INFO] = yaml.safe_dump(info)
        pod["spec"]["nodeName"] = info["node"]
        began = {"type": "PodScheduled", "status": "True", "lastTransitionTime": office.stamp()}
        office.harness.now += 40_000
        over = {"state": {"terminated": {"finishedAt": office.stamp()}}}
        pod["status"] = {"phase": "Succeeded", "containerStatuses": [over], "conditions": [began]}
        office.kube.objects[f"/api/v1/pods/{pod['metadata']['name']}"] = pod
        office.harness.options = DoorOptions(rules=office.harness.options.rules, require_grants=True)
        office.harness.begin(spec())
        annotations = {GRANTED: granted} if granted else {}
        office.harness.core.namespace_changed({"metadata": {"name": "default", "annotations": annotations}})
        office.start()
        office.kube.objects.pop(f"/api/v1/pods/{pod['metadata']['name']}")
    books = office.books()
    assert books["B", "default", "guaranteed"] == 0
    assert books["A", "default", "guaranteed"] == 4 * 80_000_000
