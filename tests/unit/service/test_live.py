# ruff: noqa: ARG002 - stand-ins take what the port takes
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from paictl.cluster.interface import ClusterError, ConfigVersion, NodeDriver, Protection, ServiceView
from paictl.config.pushing.compare import compare_files as compare
from paictl.config.pushing.configfile import of_texts
from paictl.operate.services import prepare
from paictl.plan.events import Event, PhaseSaid
from paictl.service.carry_out import NotReadyError, Patience, SharedPoll, carry_out, wait_ready, wait_stopped
from paictl.service.catalogue import load_catalogue
from paictl.service.plan import Action, ServiceRequest, ServiceState, make_plan
from paictl.service.readiness import losses_on, observe, readers_of, readiness_of

CATALOGUE = load_catalogue()
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
SERVICES = "services-configuration.yaml"


class FakeServices:
    """The port of services; refuses to start what is in `broken`, and `slow` ones need so many looks to get ready."""

    def __init__(
        self, running: Sequence[str] = (), broken: Sequence[str] = (), slow: Mapping[str, int] | None = None
    ) -> None:
        self.running = set(running)
        self.broken = set(broken)
        self.slow = dict(slow or {})
        self.calls: list[str] = []
        self.data: dict[str, tuple[str, ...]] = {}
        self.edited: dict[str, tuple[str, ...]] = {}
        self.changed: dict[str, bool] = {}
        self.without: dict[str, tuple[str, ...]] = {}

    def services(self, *, closely: bool = False) -> list[ServiceView]:
        return [self._view(service.name) for service in CATALOGUE]

    def _view(self, name: str) -> ServiceView:
        left = self.slow.get(name, 0)
        if name in self.running and left:
            self.slow[name] = left - 1
            return ServiceView(name, True, False, NOON, f"pulls its image, {left} layers left")
        there = name in self.running
        return ServiceView(name, there, there, NOON, "stopped", changed=self.changed.get(name))

    def drift(self, name: str) -> Sequence[str]:
        return self.edited.get(name, ())

    def drivers(self) -> Sequence[NodeDriver]:
        return ()

    def protections(self) -> Sequence[Protection]:
        return ()

    def lacking(self) -> Mapping[str, Sequence[str]]:
        return self.without

    def note_images(self, images: Collection[str] | None) -> None:
        raise NotImplementedError

    @property
    def keeps_data(self) -> bool:
        return False

    def refresh_service(self, name: str, *, take_over: bool = False) -> None:
        self.calls.append(f"refresh {name}")

    def set_service(self, name: str, *, running: bool, take_over: bool = False) -> ServiceView:
        self.calls.append(f"{'start' if running else 'stop'} {name}")
        if running and name in self.broken:
            raise ClusterError("refuses")
        (self.running.add if running else self.running.discard)(name)
        return ServiceView(name, running, running, NOON)

    def restart_services(self, names: Sequence[str], *, take_over: bool = False) -> None:
        self.calls.append(f"restart {' '.join(names)}")
        self.running |= set(names)

    def losses(self, name: str) -> Sequence[str] | None:
        return self.data.get(name)

    def wipe_service(self, name: str, *, with_data: bool = False) -> None:
        self.calls.append(f"wipe {name}")
        self.running.discard(name)


class FakePushed(FakeServices):
    """The same with a configuration, which is all that is looked at to see how services are."""

    def configurations(self) -> list[ConfigVersion]:
        return [self.configuration()]

    def configuration(self, number: int | None = None) -> ConfigVersion:
        return ConfigVersion(number or 1, NOON, "", {SERVICES: "", "layout.yaml": ""})

    def push(self, files: Any, message: str, *, base: int | None = None, secrets: Any = None) -> ConfigVersion:
        raise NotImplementedError


@dataclass
class Clock:
    """Time that passes only while somebody sleeps."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    def patience(self, deadline: float) -> Patience:
        return Patience(deadline, 1.0, lambda: self.now, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def run(fake: FakePushed, action: Action, *names: str, **options: Any) -> list[tuple[str, bool]]:
    plan = make_plan(ServiceRequest(action, names, **options), CATALOGUE, observe(fake).states)
    outcomes = carry_out(plan, CATALOGUE, fake)
    return [(outcome.step.service, outcome.error is None) for outcome in outcomes]


def test_steps_are_done_in_their_order() -> None:
    fake = FakePushed(["cluster-configuration"])
    run(fake, Action.START, "grafana", with_prerequisites=True)
    run(fake, Action.STOP, "grafana")
    assert fake.calls == ["start prometheus", "start grafana", "stop grafana"]


def test_to_refresh_or_restart_is_one_request_so_that_a_kill_leaves_nothing_stopped() -> None:
    fake = FakePushed(["cluster-configuration", "alert-manager", "prometheus"])
    run(fake, Action.REFRESH, "alert-manager")
    assert run(fake, Action.RESTART, "alert-manager", "prometheus") == [
        ("prometheus", True),
        ("alert-manager", True),
        ("alert-manager", True),
        ("prometheus", True),
    ]
    assert fake.calls == ["refresh alert-manager", "restart alert-manager prometheus"]


def test_a_restart_of_what_did_not_run_starts_it_in_its_place() -> None:
    fake = FakePushed(["cluster-configuration", "grafana"])
    run(fake, Action.RESTART, "prometheus", "grafana")
    assert fake.calls == ["stop grafana", "start prometheus", "start grafana"]


def test_what_needs_a_service_waits_until_that_is_ready_and_says_why_it_waits() -> None:
    fake, clock, told = FakePushed(["cluster-configuration"], slow={"prometheus": 3}), Clock(), list[Event]()
    plan = make_plan(
        ServiceRequest(Action.START, ("grafana",), with_prerequisites=True), CATALOGUE, observe(fake).states
    )
    outcomes = carry_out(plan, CATALOGUE, fake, told.append, clock.patience(60))
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert clock.slept == [1.0, 1.0, 1.0]
    said = [event.text for event in told if isinstance(event, PhaseSaid)]
    assert said == [f"pulls its image, {left} layers left" for left in (3, 2, 1)]


def test_a_service_that_does_not_get_ready_is_named_with_its_reason_and_blocks_the_next() -> None:
    fake, clock = FakePushed(["cluster-configuration"], slow={"prometheus": 99}), Clock()
    plan = make_plan(
        ServiceRequest(Action.START, ("grafana",), with_prerequisites=True), CATALOGUE, observe(fake).states
    )
    slow, blocked = carry_out(plan, CATALOGUE, fake, patience=clock.patience(5))
    assert isinstance(slow.error, NotReadyError)
    assert "is not ready after 5 s: pulls its image, 94 layers left" in str(slow.error)
    assert clock.now == 5
    assert "needs prometheus, which did not start" in str(blocked.error)
    assert "start grafana" not in fake.calls


def test_nobody_waits_for_a_service_that_is_gone() -> None:
    with pytest.raises(NotReadyError, match="it is gone"):
        wait_ready(SharedPoll(FakeServices()), "nobody", Clock().patience(60), lambda *_: None)


def test_nothing_is_started_on_top_of_what_did_not_start_and_the_rest_is() -> None:
    fake = FakePushed(broken=["prometheus"])
    names = ("cluster-configuration", "prometheus", "grafana", "alert-manager")
    assert run(fake, Action.START, *names) == [
        ("cluster-configuration", True),
        ("alert-manager", True),
        ("prometheus", False),
        ("grafana", False),
    ]
    assert "start grafana" not in fake.calls


def test_what_is_lost_is_what_the_cluster_says_or_else_the_description() -> None:
    fake = FakePushed(["prometheus", "alert-manager", "grafana", "rest-server"])
    fake.data = {"grafana": ("2 ended jobs",), "rest-server": ()}
    plan = make_plan(ServiceRequest(Action.DELETE), CATALOGUE, observe(fake).states)
    losses = {loss.service: loss.data for loss in losses_on(plan, fake)}
    assert losses["grafana"] == ("2 ended jobs",)
    assert losses["prometheus"] == ("all metrics collected so far",)
    assert "rest-server" not in losses
    assert "alert-manager" not in losses
    assert fake.calls == []
    assert run(fake, Action.DELETE, "alert-manager", "prometheus") == [("prometheus", True), ("alert-manager", True)]
    assert fake.calls == ["wipe prometheus", "wipe alert-manager"]


def test_what_is_seen_of_a_cluster() -> None:
    observed = observe(FakePushed(["cluster-configuration"]))
    assert observed.states["cluster-configuration"] is ServiceState.RUNNING
    assert observed.states["alert-manager"] is ServiceState.STOPPED
    assert readiness_of("cluster-configuration", CATALOGUE, observed).ready
    assert readiness_of("alert-manager", CATALOGUE, observed).reasons == (
        "is stopped: start it with paictl service start -n alert-manager",
    )


def test_services_that_read_what_changed_are_named() -> None:
    old = "rest-server: {server-port: 1}\nhivedscheduler: {config: 'a: 1'}\n"
    assert readers_of(compare(of_texts({SERVICES: old}), of_texts({SERVICES: old + "# end\n"})), CATALOGUE) == ()
    changed = compare(of_texts({SERVICES: old}), of_texts({SERVICES: old.replace("a: 1", "a: 2")}))
    assert readers_of(changed, CATALOGUE) == ("hivedscheduler", "rest-server")
    layout = compare(of_texts({}), of_texts({"layout.yaml": "machine-list: []\n"}))
    assert readers_of(layout, CATALOGUE) == ("cluster-configuration", "gpu-driver", "device-plugin", "dra-driver")


def test_side_by_side_the_order_still_holds_and_a_failure_names_who_was_not_started() -> None:
    fake, clock = FakePushed(["cluster-configuration"], broken=["prometheus"]), Clock()
    plan = make_plan(ServiceRequest(Action.START), CATALOGUE, observe(fake).states)
    outcomes = {
        one.step.service: one for one in carry_out(plan, CATALOGUE, fake, patience=clock.patience(5), workers=8)
    }
    assert outcomes["prometheus"].dependants == ("grafana",)
    assert {name for name, one in outcomes.items() if one.error is not None} == {"prometheus", "grafana"}
    order = [call.removeprefix("start ") for call in fake.calls]
    for name in order:
        assert all(need in order[: order.index(name)] for need in CATALOGUE[name].prerequisites if need in order)
    stop = make_plan(ServiceRequest(Action.STOP), CATALOGUE, observe(fake).states)
    fake.calls.clear()
    carry_out(stop, CATALOGUE, fake, workers=8)
    order = [call.removeprefix("stop ") for call in fake.calls]
    for name in order:
        assert all(order.index(need) > order.index(name) for need in CATALOGUE[name].prerequisites if need in order)


def test_a_stop_waits_until_nothing_runs_any_more() -> None:
    class Slow(FakePushed):
        left = 2

        def services(self, *, closely: bool = False) -> list[ServiceView]:
            self.left -= 1
            return [ServiceView("grafana", self.left > 0, False, NOON, f"{self.left} pods are ending")]

    clock, told = Clock(), list[str]()

    def tell(words: str, _: str = "") -> None:
        told.append(words)

    wait_stopped(SharedPoll(Slow()), "grafana", clock.patience(60), tell)
    assert (told, clock.slept) == (["1 pods are ending"], [1.0])
    stuck = Slow()
    stuck.left = 99
    with pytest.raises(NotReadyError, match=r"has not stopped after 3 s: 9\d pods are ending"):
        wait_stopped(SharedPoll(stuck), "grafana", clock.patience(3), lambda *_: None)


def test_who_wait_at_the_same_time_share_a_look_and_none_is_older_than_its_question() -> None:
    looks = SharedPoll(FakeServices(["grafana"]))
    first, second = looks.view("grafana"), looks.view("grafana")
    assert first is not None
    assert second is not first, "asked later, looked again"


def test_a_start_of_all_leaves_out_what_no_machine_has_an_image_of_and_who_needs_it() -> None:
    fake = FakePushed(running=["cluster-configuration", "grafana"])
    fake.without = {"device-plugin": ("nvidia/plugin:1",), "grafana": ("grafana:1",)}
    prepared = prepare(fake, ServiceRequest(Action.START))
    left = {one.service: one for one in prepared.left}
    assert left["device-plugin"].images == ("nvidia/plugin:1",)
    assert left["hivedscheduler"].needs == "device-plugin"
    assert "grafana" not in left  # it runs: somebody has brought the image
    assert not {step.service for step in prepared.plan.steps} & left.keys()
    assert prepared.plan.blocked == ()


@pytest.mark.parametrize(
    "request_",
    [
        ServiceRequest(Action.START, ("device-plugin",)),
        ServiceRequest(Action.STOP),
        ServiceRequest(Action.REFRESH),
    ],
)
def test_a_service_that_somebody_names_is_tried_and_nothing_else_heeds_images(request_: ServiceRequest) -> None:
    fake = FakePushed(running=["cluster-configuration", "frameworkcontroller"])
    fake.without = {"device-plugin": ("nvidia/plugin:1",), "frameworkcontroller": ("paictl:1",)}
    prepared = prepare(fake, request_)
    assert prepared.left == ()
    assert prepared.plan.request == request_


@pytest.mark.parametrize(("take_over", "refreshed"), [(True, ["grafana"]), (False, [])])
def test_what_was_edited_by_hand_is_refreshed_when_it_is_to_be_taken_over(
    take_over: bool, refreshed: list[str]
) -> None:
    fake = FakePushed(running=["grafana", "prometheus"])
    fake.changed = {"grafana": False, "prometheus": False}
    fake.edited = {"grafana": ("Deployment paictl-system/grafana: spec.paused was added by kubectl",)}
    request_ = ServiceRequest(Action.REFRESH, names=("grafana", "prometheus"), take_over=take_over)
    plan = prepare(fake, request_).plan
    assert [step.service for step in plan.steps] == refreshed
    assert {one.service for one in plan.settled} == {"grafana", "prometheus"} - set(refreshed)
