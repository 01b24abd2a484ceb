from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.service.catalogue import Service, catalogue_of, load_catalogue
from paictl.service.order import ServiceError, needed_by
from paictl.service.plan import Action, ServicePlan, ServiceRequest, ServiceState, make_plan

SMALL = catalogue_of(
    [
        Service("base", "the ground", "", data=("the ground itself",)),
        Service("store", "keeps", "", prerequisites=("base",), data=("all rows",)),
        Service("api", "answers", "", prerequisites=("store", "base")),
        Service("web", "shows", "", prerequisites=("api",)),
        Service("lone", "alone", ""),
    ]
)
UP = dict.fromkeys(SMALL.services, ServiceState.RUNNING)
DOWN = dict.fromkeys(SMALL.services, ServiceState.STOPPED)


def plan(action: Action, states: dict[str, ServiceState], *names: str, **more: object) -> ServicePlan:
    return make_plan(ServiceRequest(action, names, **more), SMALL, states)  # type: ignore[arg-type]


def steps(plan: ServicePlan) -> list[str]:
    return [f"{step.action} {step.service}" for step in plan.steps]


def test_all_start_from_the_ground_up_and_stop_from_the_top_down() -> None:
    assert steps(plan(Action.START, {})) == ["start base", "start lone", "start store", "start api", "start web"]
    assert steps(plan(Action.STOP, UP)) == ["stop web", "stop api", "stop store", "stop lone", "stop base"]


def test_skipping_leaves_services_out() -> None:
    assert steps(plan(Action.STOP, UP, skip=("base", "store", "lone"))) == ["stop web", "stop api"]


def test_naming_and_skipping_together_is_refused() -> None:
    with pytest.raises(ServiceError, match="both named and skipped"):
        plan(Action.STOP, UP, "web", skip=("api",))


def test_unknown_names_are_refused_in_both_lists() -> None:
    with pytest.raises(ServiceError, match="no service 'wep'"):
        plan(Action.STOP, UP, "wep")
    with pytest.raises(ServiceError, match="no service 'wep'"):
        plan(Action.STOP, UP, skip=("wep",))


def test_a_start_without_what_it_needs_is_blocked_and_says_how_to_go_on() -> None:
    made = plan(Action.START, {**DOWN, "base": ServiceState.RUNNING, "api": ServiceState.FAILED}, "web", "lone")
    assert steps(made) == ["start lone"]
    (blocked,) = made.blocked
    assert blocked.message == "web needs store (stopped) and api (failed)"
    assert blocked.missing == ("store", "api")
    assert blocked.hint.endswith("paictl service start -n store -n api")


def test_prerequisites_are_started_on_request_with_who_needs_them() -> None:
    made = plan(Action.START, {**DOWN, "base": ServiceState.RUNNING}, "web", with_prerequisites=True)
    assert steps(made) == ["start store", "start api", "start web"]
    assert not made.blocked
    assert [step.reason for step in made.steps] == ["is needed by web", "is needed by web", "is stopped"]


def test_a_skipped_service_is_not_started_as_a_prerequisite_either() -> None:
    made = plan(Action.START, DOWN, skip=("store",), with_prerequisites=True)
    assert steps(made) == ["start base", "start lone"]
    assert [blocked.service for blocked in made.blocked] == ["api", "web"]


def test_what_runs_already_is_settled() -> None:
    made = plan(Action.START, {**UP, "web": ServiceState.STARTING}, "web", "lone")
    assert [(remark.service, remark.text) for remark in made.settled] == [("lone", "is running already")]
    assert [(step.service, step.reason) for step in made.steps] == [("web", "is starting")], "it is waited for"


def test_what_was_left_half_done_is_started_again() -> None:
    made = plan(Action.START, {**UP, "web": ServiceState.FAILED}, "web")
    assert [(step.service, step.reason) for step in made.steps] == [("web", "is failed")]


def test_to_refresh_what_did_not_change_is_nothing_to_do() -> None:
    made = make_plan(ServiceRequest(Action.REFRESH, ("web", "lone")), SMALL, UP, ["web"])
    assert steps(made) == ["refresh lone"]
    (settled,) = made.settled
    assert (settled.service, settled.text) == ("web", "is already up to date")


def test_stopping_what_others_need_warns_of_those_that_stay() -> None:
    made = plan(Action.STOP, UP, "store", "web")
    assert steps(made) == ["stop web", "stop store"]
    assert [(remark.service, remark.text) for remark in made.warnings] == [
        ("store", "is needed by api, which keeps running without it")
    ]
    (warning,) = plan(Action.STOP, UP, "store").warnings
    assert warning.text == "is needed by api and web, which keep running without it"


def test_nobody_is_warned_of_services_that_do_not_run() -> None:
    assert plan(Action.STOP, {**DOWN, "store": ServiceState.RUNNING}, "store").warnings == ()


def test_a_failed_service_can_be_stopped_and_a_stopped_one_is_settled() -> None:
    made = plan(Action.STOP, {**DOWN, "api": ServiceState.FAILED}, "api", "web")
    assert steps(made) == ["stop api"]
    assert [remark.service for remark in made.settled] == ["web"]


def test_restart_stops_downwards_and_starts_upwards() -> None:
    made = plan(Action.RESTART, UP, "api", "store")
    assert steps(made) == ["stop api", "stop store", "start store", "start api"]
    warning = "is needed by web, which keeps running without it until it is back"
    assert {remark.text for remark in made.warnings} == {warning}


def test_restart_starts_what_was_stopped() -> None:
    assert steps(plan(Action.RESTART, {**UP, "web": ServiceState.STOPPED}, "web")) == ["start web"]


def test_a_restart_that_could_not_be_finished_is_not_begun() -> None:
    made = plan(Action.RESTART, {**UP, "store": ServiceState.STOPPED}, "api", "lone")
    assert steps(made) == ["stop lone", "start lone"]
    assert [blocked.service for blocked in made.blocked] == ["api"]


def test_delete_lists_what_will_be_lost() -> None:
    made = plan(Action.DELETE, {**UP, "web": ServiceState.ABSENT}, "base", "store", "web")
    assert steps(made) == ["delete store", "delete base"]
    assert [(loss.service, loss.data) for loss in made.losses] == [
        ("store", ("all rows",)),
        ("base", ("the ground itself",)),
    ]
    assert [remark.service for remark in made.settled] == ["web"]
    assert [remark.service for remark in made.warnings] == ["store", "base"]


def test_only_running_services_are_refreshed() -> None:
    made = plan(Action.REFRESH, {**UP, "web": ServiceState.STOPPED})
    assert steps(made) == ["refresh base", "refresh lone", "refresh store", "refresh api"]
    assert [remark.text for remark in made.settled] == ["is stopped and reads the configuration when it starts"]


CATALOGUE = load_catalogue()
NAMES = sorted(CATALOGUE.services)
AFTER = {Action.START: ServiceState.RUNNING, Action.STOP: ServiceState.STOPPED, Action.DELETE: ServiceState.ABSENT}


def carried_out(made: ServicePlan, states: dict[str, ServiceState]) -> dict[str, ServiceState]:
    """The states after a plan; asserts that nothing starts before what it needs."""
    result = {name: states.get(name, ServiceState.ABSENT) for name in NAMES}
    for step in made.steps:
        if step.action is Action.START:
            needs = needed_by(CATALOGUE.graph, [step.service])
            assert all(result[need].up for need in needs), f"{step.service} starts too early"
        if step.action is Action.REFRESH:
            assert result[step.service].up
        else:
            result[step.service] = AFTER[step.action]
    return result


@given(
    st.sampled_from(Action),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(ServiceState)),
    st.sets(st.sampled_from(NAMES), min_size=1),
    st.booleans(),
)
def test_a_plan_that_is_carried_out_gives_what_was_wished(
    action: Action, states: dict[str, ServiceState], names: set[str], with_prerequisites: bool
) -> None:
    made = make_plan(ServiceRequest(action, tuple(names), with_prerequisites=with_prerequisites), CATALOGUE, states)
    after = carried_out(made, states)
    stuck = {blocked.service for blocked in made.blocked}
    if action in (Action.START, Action.RESTART):
        assert all(after[name].up or name in stuck for name in names)
        assert not (with_prerequisites and stuck)
        assert not any(states.get(name, ServiceState.ABSENT).up and not after[name].up for name in NAMES)
    elif action is Action.STOP:
        assert not any(after[name].up for name in names)
    elif action is Action.DELETE:
        assert all(after[name] is ServiceState.ABSENT for name in names)
    if not with_prerequisites:
        assert {step.service for step in made.steps} <= names
    if action not in (Action.START, Action.RESTART):
        handled = {step.service for step in made.steps} | {remark.service for remark in made.settled}
        assert handled == names
