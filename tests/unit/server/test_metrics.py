"""What Prometheus reads of the cluster on this machine: the figures of a door, for administrators only."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from paictl.cluster.defrag import GangPods
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.interface import JobRequest, NodeChange, UnsupportedError
from paictl.cluster.kubernetes.cluster import KubernetesCluster
from paictl.cluster.maintenance import WindowRequest
from paictl.cluster.reservations import ReservationRequest
from paictl.operate.defrag import MovingError, make_room
from paictl.scheduler.defrag import RoomRequest
from paictl.server.api.info import metrics
from paictl.server.serving import in_background
from paictl.units import Millis
from tests.unit.cluster.fakekube import FakeKube
from tests.unit.cluster.test_catalogue_metrics import own_metrics
from tests.unit.server.conftest import Server, serving
from tests.unit.server.test_api import JOB
from tests.unit.server.test_tenants import job, post
from tests.unit.server.test_usage import share

HOUR = 3_600_000

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    """Every sample by name and labels; the parser of Prometheus' own library refuses anything malformed."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, key
            found[key] = sample.value
    return found


def scrape(server: Server) -> Samples:
    reply = server.get("/metrics", "root")
    assert (reply.status, reply.header("content-type")) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return samples(reply.text)


def value(found: Samples, name: str, **labels: str) -> float:
    return found[f"paictl_extender_{name}", frozenset(labels.items())]


def test_only_administrators_read_the_figures_of_all_tenants(server: Server) -> None:
    assert post(server, "bob", job("mine", "default", "test")).status == 202
    application = str(server.send("POST", "/api/v2/tokens/application", {}, "root").data["token"])
    for token, status in (("", 401), ("pai-" + "A" * 43, 401), (server.token("ann"), 403), (application, 403)):
        refused = server.ask("GET", "/metrics", token=token)
        assert (refused.status, refused.header("content-type")) == (status, "application/json")
        assert b"paictl_extender" not in refused.body


def test_each_ability_has_its_figures_under_the_names_of_the_doors(server: Server) -> None:
    share(
        server,
        "sharing: {budgets: [{vc: vc1, device-hours: 9}], user-limits: [{vc: vc1, devices: 2}], "
        "borrow-limits: [{vc: vc1, devices: 3}], lend-limits: [{vc: vc1, devices: 0}], backfill: [{mode: easy}], "
        "departments: [{name: research, vcs: [vc1]}], opportunistic-order: {by: decayed-use, half-life: 7d}}",
    )
    cluster = server.cluster
    for user, vc, kind in (("ann", "vc1", "test"), ("bob", "default", "oppo")):
        assert post(server, user, job(f"{user}-train", vc, kind)).status == 202
    cluster.tick(Millis(HOUR // 2))
    node = [node.machine.name for node in cluster.nodes() if node.machine.role.value == "worker"][-1]
    cluster.add_window(WindowRequest((node,), Millis(HOUR), cluster.now + timedelta(hours=2)))
    cluster.set_devices(node, NodeChange.FAIL, [0])
    found = scrape(server)
    own = own_metrics()
    for name, labels in found:
        if name in own:  # those that the source spells out
            assert {label for label, _ in labels} == own[name], name
    assert value(found, "leader") == 1
    assert value(found, "budget_hours", vc="vc1", user="") == 9
    assert value(found, "budget_used_hours", vc="vc1", user="") == 0.5
    assert value(found, "user_devices", vc="vc1", user="ann") == 1
    assert value(found, "borrowed_devices", vc="vc1") == 0
    assert value(found, "lendable_devices", vc="vc1") == 0
    assert value(found, "department_devices", department="research") == 1
    assert value(found, "recent_opportunistic_hours", vc="default") == pytest.approx(0.5, abs=0.01)
    assert value(found, "maintenance_windows", state="planned") == 1
    assert value(found, "bad_devices") == 1
    assert value(found, "bad_nodes") == 0
    assert value(found, "pods", state="bound") == 2
    assert value(found, "device_seconds_total", vc="vc1", **{"class": "guaranteed"}) == 1800
    assert value(found, "device_seconds_total", vc="default", **{"class": "opportunistic"}) == 1800
    used = {
        dict(labels)["cell_type"]: number
        for (name, labels), number in found.items()
        if name == "paictl_extender_cells"
        and ("vc", "vc1") in labels
        and ("state", "Used") in labels
        and ("level", "1") in labels
    }
    assert sum(used.values()) == 1
    free = sum(number for (name, _), number in found.items() if name == "paictl_extender_free_devices")
    assert free == sum(cell.devices for cell in cluster.picture().free)


@pytest.fixture
def tenants(tmp_path: Path) -> Iterator[Server]:
    """Four nodes of eight devices; three tenants are promised one each."""
    with serving(tmp_path, "three-tenants") as found:
        yield found


def run(server: Server, name: str, gpu: int, priority: str = "test", hours: int = 2) -> None:
    data = yaml.safe_load(JOB.format(name=name, vc="tenanta"))
    data["taskRoles"]["train"] |= {"resourcePerInstance": {"gpu": gpu, "cpu": 1, "memoryMB": 512}}
    data["taskRoles"]["train"]["commands"] = ["sleep 99h"]
    data["extras"] = {"maxRunTime": f"{hours}h", "gangAllocation": True}
    server.cluster.submit([JobRequest("ann", data, None, priority)])


def test_what_waits_is_promised_or_reserved_is_counted(tenants: Server) -> None:
    share(tenants, "sharing: {backfill: [{mode: conservative}], budgets: [{vc: tenantb, device-hours: 0}]}")
    cluster = tenants.cluster
    for name, gpu in (("runs", 8), ("first", 8), ("second", 8)):
        run(tenants, name, gpu)
    held = yaml.safe_load(JOB.format(name="held", vc="tenantb"))
    cluster.submit([JobRequest("bob", held, None, "test")])
    cluster.add_reservation(
        ReservationRequest(Millis(HOUR), cluster.now + timedelta(hours=9), "tenantc", 1, "V100-SWITCH")
    )
    found = scrape(tenants)
    assert value(found, "promised_starts", vc="tenanta") == 2
    began = cluster.job("ann~runs").started
    assert began is not None
    assert value(found, "promised_start_timestamp_seconds", vc="tenanta") == pytest.approx(
        began.timestamp() + 7200, abs=0.01
    )
    assert (value(found, "reservations", state="planned"), value(found, "reservations", state="active")) == (1, 0)
    assert value(found, "reservation_short_cells", reservation=cluster.reservations()[0].name) == 0
    waiting = {
        dict(labels)["reason"]: number
        for (name, labels), number in found.items()
        if name == "paictl_extender_waiting_pods"
    }
    assert waiting == {"held back by a budget or a limit": 1, "insufficient devices": 2, "other": 0}


def test_a_plan_of_moves_is_counted_by_who_pays(tenants: Server) -> None:
    """Its weight while it is carried out, what it cost, and gangs that did not come back; a restart loses nothing."""
    cluster, seen = tenants.cluster, list[Samples]()
    for name, gpu in (("keep1", 1), ("fill1", 7), ("keep2", 2), ("fill2", 6), ("keep4", 4), ("fill4", 4)):
        run(tenants, name, gpu, "oppo", 99)
    for name in ("fill1", "fill2", "fill4"):
        cluster.stop_job(f"ann~{name}")
    cluster.tick(Millis(HOUR))
    plan = cluster.plan_moves([RoomRequest(3, "V100-NODE")])
    lost = {gang.key: gang.devices * gang.lost / 1000 for gang in cluster.gangs()}
    make_room(cluster, plan, Millis(1000), lambda _: seen.append(scrape(tenants)))
    assert [value(one, "defrag_moves_total", vc="tenanta") for one in seen] == [1, 2]
    assert {value(one, "defrag_planned_weight_device_seconds", vc="tenanta") for one in seen} == {plan.weight}
    found = scrape(tenants)
    assert value(found, "defrag_planned_weight_device_seconds", vc="tenanta") == 0
    assert value(found, "defrag_lost_device_seconds_total", vc="tenanta") == sum(lost[move.key] for move in plan.moves)
    assert value(found, "defrag_moves_failed_total", vc="tenanta") == 0
    cluster.restart_services(["hivedscheduler"])
    assert value(scrape(tenants), "defrag_moves_total", vc="tenanta") == 2


def test_a_gang_that_does_not_come_back_in_time_is_counted(tenants: Server) -> None:
    cluster = tenants.cluster
    for name, gpu in (("keep1", 1), ("fill1", 7), ("keep2", 2), ("fill2", 6)):
        run(tenants, name, gpu, "oppo", 99)
    for name in ("fill1", "fill2"):
        cluster.stop_job(f"ann~{name}")
    plan = cluster.plan_moves([RoomRequest(3, "V100-NODE")])
    (move,) = plan.moves

    class Stuck(EmbeddedCluster):
        """Its gangs do not start again."""

        def evict_gang(self, gang: GangPods) -> None:
            super().evict_gang(gang)
            self.set_service("hivedscheduler", running=False)
            self.set_node(move.after[0][0], NodeChange.FAIL)
            self.tick(Millis(HOUR))

    with pytest.raises(MovingError, match=r"0 of 1 gangs were moved: .* has not come back"):
        make_room(Stuck.at(tenants.folder), plan, Millis(0))
    cluster.set_service("hivedscheduler", running=True)
    found = scrape(tenants)
    assert value(found, "defrag_moves_failed_total", vc="tenanta") == 1
    assert value(found, "defrag_moves_total", vc="tenanta") == 1
    assert value(found, "defrag_planned_weight_device_seconds", vc="tenanta") == 0


def test_a_killed_plan_is_forgotten_when_it_would_be_over(tenants: Server) -> None:
    tenants.cluster.note_plan({"tenanta": 900}, Millis(HOUR))
    assert value(scrape(tenants), "defrag_planned_weight_device_seconds", vc="tenanta") == 900
    tenants.cluster.tick(Millis(HOUR))
    assert value(scrape(tenants), "defrag_planned_weight_device_seconds", vc="tenanta") == 0


def test_without_a_scheduler_the_totals_are_left(server: Server) -> None:
    assert post(server, "ann", job("train", "vc1", "test")).status == 202
    server.cluster.tick(Millis(HOUR))
    server.cluster.set_service("hivedscheduler", running=False)
    found = scrape(server)
    assert value(found, "leader") == 0
    assert value(found, "device_seconds_total", vc="vc1", **{"class": "guaranteed"}) == 3600
    assert not {name for name, _ in found if "pods" in name}


def test_prometheus_scrapes_it_over_the_network(tenants: Server) -> None:
    token = tenants.token("root")
    with in_background(lambda: EmbeddedCluster.at(tenants.folder)) as where:
        connection = HTTPConnection(where.removeprefix("http://"), timeout=30)
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
        text = connection.getresponse().read().decode()
        connection.close()
    assert value(samples(text), "nodes") == len(tenants.cluster.nodes())


def test_a_real_cluster_is_measured_by_its_scheduler() -> None:
    call: Any = SimpleNamespace(cluster=KubernetesCluster(FakeKube({}), "fake"))
    with pytest.raises(UnsupportedError, match="no metrics") as refused:
        metrics(call)
    assert "hivedscheduler" in str(refused.value.hint)
