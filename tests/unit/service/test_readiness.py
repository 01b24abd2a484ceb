from __future__ import annotations

import pytest

from paictl.service.catalogue import Service, catalogue_of
from paictl.service.order import ServiceError
from paictl.service.plan import ServiceState
from paictl.service.readiness import ObservedCluster, readiness_of

SMALL = catalogue_of(
    [
        Service("base", "", "", configuration=("config.yaml", "services-configuration.yaml:cluster")),
        Service("store", "", "", prerequisites=("base",)),
        Service("api", "", "", prerequisites=("base", "store")),
    ]
)
UP = dict.fromkeys(SMALL.services, ServiceState.RUNNING)
FILES = ("config.yaml", "services-configuration.yaml")


def reasons(
    name: str, states: dict[str, ServiceState], files: tuple[str, ...] = FILES, **details: str
) -> tuple[str, ...]:
    found = readiness_of(name, SMALL, ObservedCluster(states, files, details))
    assert found.ready is (not found.reasons)
    return found.reasons


def test_a_running_service_with_all_it_needs_is_ready() -> None:
    assert reasons("api", UP) == ()


def test_a_stopped_service_says_how_to_start_it() -> None:
    assert reasons("base", {"base": ServiceState.STOPPED}) == (
        "is stopped: start it with paictl service start -n base",
    )
    assert reasons("base", {})[0].startswith("is absent")


def test_what_the_cluster_says_comes_first() -> None:
    assert reasons("base", {"base": ServiceState.FAILED}, base="port 9186 is taken") == (
        "is failed: port 9186 is taken",
    )
    assert reasons("base", {"base": ServiceState.STARTING}) == ("is starting",)


def test_a_running_service_without_its_prerequisite_is_not_ready_and_names_the_one_to_blame() -> None:
    states = {**UP, "store": ServiceState.STOPPED, "base": ServiceState.FAILED}
    assert reasons("api", states) == (
        "needs base (failed)",
        "needs store (stopped), which needs base (failed)",
    )


def test_a_file_that_was_never_pushed_is_a_reason_a_missing_section_is_none() -> None:
    assert reasons("base", UP, ("services-configuration.yaml",)) == ("reads config.yaml, which was never pushed",)


def test_an_unknown_service_is_refused() -> None:
    with pytest.raises(ServiceError):
        readiness_of("bose", SMALL, ObservedCluster({}))
