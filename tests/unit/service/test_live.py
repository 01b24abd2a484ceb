from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from paictl.cluster.interface import Cluster, ClusterError, ConfigVersion, ServiceView
from paictl.config.pushing.compare import compare_files
from paictl.service.catalogue import load_catalogue
from paictl.service.live import carry_out, losses_on, readers_of, sight_of
from paictl.service.plan import Action, State, Wish, make_plan
from paictl.service.readiness import readiness_of
from paictl.units import Millis

CATALOGUE = load_catalogue()
SERVICES = "services-configuration.yaml"


class FakeCluster:
    """The part of a cluster that services need; refuses to start what is in `broken`."""

    def __init__(self, running: Sequence[str] = (), broken: Sequence[str] = ()) -> None:
        self.running = set(running)
        self.broken = set(broken)
        self.calls: list[str] = []
        self.data: dict[str, tuple[str, ...]] = {}

    def services(self) -> list[ServiceView]:
        return [
            ServiceView(service.name, service.name in self.running, service.name in self.running, Millis(0), "stopped")
            for service in CATALOGUE
        ]

    def configurations(self) -> list[ConfigVersion]:
        return [ConfigVersion(1, Millis(0), "", {SERVICES: "", "layout.yaml": ""})]

    def set_service(self, name: str, *, running: bool) -> ServiceView:
        self.calls.append(f"{'start' if running else 'stop'} {name}")
        if running and name in self.broken:
            raise ClusterError("refuses")
        (self.running.add if running else self.running.discard)(name)
        return ServiceView(name, running, running, Millis(0))

    def losses(self, name: str) -> Sequence[str] | None:
        return self.data.get(name)

    def wipe_service(self, name: str) -> None:
        self.calls.append(f"wipe {name}")
        self.running.discard(name)


def run(fake: FakeCluster, action: Action, *names: str, **options: Any) -> list[tuple[str, bool]]:
    cluster = cast(Cluster, fake)
    plan = make_plan(Wish(action, names, **options), CATALOGUE, sight_of(cluster).states)
    outcomes = carry_out(plan, CATALOGUE, cluster)
    return [(outcome.step.service, outcome.error is None) for outcome in outcomes]


def test_steps_are_done_in_their_order() -> None:
    fake = FakeCluster(["cluster-configuration"])
    run(fake, Action.START, "postgresql", with_prerequisites=True)
    run(fake, Action.STOP, "postgresql")
    assert fake.calls == ["start internal-storage", "start postgresql", "stop postgresql"]


def test_to_refresh_is_to_stop_and_start() -> None:
    fake = FakeCluster(["cluster-configuration", "pylon"])
    run(fake, Action.REFRESH, "pylon")
    assert fake.calls == ["stop pylon", "start pylon"]


def test_nothing_is_started_on_top_of_what_did_not_start_and_the_rest_is() -> None:
    fake = FakeCluster(broken=["internal-storage"])
    names = ("cluster-configuration", "internal-storage", "postgresql", "pylon")
    assert run(fake, Action.START, *names) == [
        ("cluster-configuration", True),
        ("internal-storage", False),
        ("postgresql", False),
        ("pylon", True),
    ]
    assert "start postgresql" not in fake.calls


def test_what_is_lost_is_what_the_cluster_says_or_else_the_description() -> None:
    fake = FakeCluster(["prometheus", "pylon", "postgresql", "rest-server"])
    fake.data = {"postgresql": ("2 ended jobs",), "rest-server": ()}
    plan = make_plan(Wish(Action.DELETE), CATALOGUE, sight_of(cast(Cluster, fake)).states)
    losses = {loss.service: loss.data for loss in losses_on(plan, cast(Cluster, fake))}
    assert losses["postgresql"] == ("2 ended jobs",)
    assert losses["prometheus"] == ("all metrics collected so far",)
    assert "rest-server" not in losses
    assert "pylon" not in losses
    assert fake.calls == []
    assert run(fake, Action.DELETE, "pylon", "prometheus") == [("pylon", True), ("prometheus", True)]
    assert fake.calls == ["wipe pylon", "wipe prometheus"]


def test_what_is_seen_of_a_cluster() -> None:
    sight = sight_of(cast(Cluster, FakeCluster(["cluster-configuration"])))
    assert sight.states["cluster-configuration"] is State.RUNNING
    assert sight.states["pylon"] is State.STOPPED
    assert readiness_of("cluster-configuration", CATALOGUE, sight).ready
    assert readiness_of("pylon", CATALOGUE, sight).reasons == (
        "is stopped: start it with paictl service start -n pylon",
    )


def test_services_that_read_what_changed_are_named() -> None:
    old = "rest-server: {server-port: 1}\nhivedscheduler: {config: 'a: 1'}\n"
    assert readers_of(compare_files({SERVICES: old}, {SERVICES: old + "# end\n"}), CATALOGUE) == ()
    changed = compare_files({SERVICES: old}, {SERVICES: old.replace("a: 1", "a: 2")})
    assert readers_of(changed, CATALOGUE) == ("hivedscheduler", "rest-server")
    layout = compare_files({}, {"layout.yaml": "machine-list: []\n"})
    assert readers_of(layout, CATALOGUE) == ("cluster-configuration", "device-plugin")
