"""The contract of a cluster, port by port."""

from __future__ import annotations

from datetime import timedelta

import pytest

from paictl.cluster.interface import (
    ClusterError,
    ConflictError,
    EventKind,
    JobState,
    MachineSpec,
    NodeChange,
    NodeCondition,
    NodeRole,
    Port,
    UnsupportedError,
)
from paictl.cluster.maintenance import WindowRequest
from paictl.cluster.picture import picture_data
from paictl.cluster.scheduling import JobSituation
from paictl.cluster.targets import ClusterKind
from paictl.errors import PaictlError
from paictl.operate import explaining
from paictl.units import Millis
from paictl.workload.windows import WindowError
from tests.contract.conftest import KINDS, Contract

SERVICES = "services-configuration.yaml"

needs = pytest.mark.needs
"""Ports that a test uses beside nodes and configuration, which every kind has."""
together = pytest.mark.together
"""A test in which the services that run jobs are started and stopped: they have to be real programs."""


def test_every_kind_that_can_be_opened_is_under_contract() -> None:
    assert set(KINDS) == {kind.value for kind in ClusterKind}


# --- identity and time


def test_every_answer_is_dated_and_the_clock_goes_on(contract: Contract) -> None:
    cluster = contract.cluster
    dates = [*(view.since for view in cluster.nodes()), *(version.at for version in cluster.configurations())]
    assert dates
    before = cluster.now
    for at in dates:
        assert at.tzinfo is not None
        assert cluster.epoch <= at <= cluster.now + timedelta(seconds=contract.patience)
    other = contract.again()
    assert before <= cluster.now <= other.now
    assert (other.name, other.epoch) == (cluster.name, cluster.epoch)


def test_what_a_kind_lacks_is_the_same_error_at_every_try(contract: Contract) -> None:
    cluster = contract.cluster
    asked = {
        Port.JOBS: (
            cluster.jobs,
            lambda: cluster.submit([]),
            lambda: cluster.job("a~b"),
            cluster.events,
            lambda: cluster.stop_job("a~b"),
        ),
        Port.SCHEDULING: (
            cluster.picture,
            lambda: cluster.explain("a~b"),
            lambda: cluster.impact({}),
            lambda: cluster.foresee(contract.request("one")),
        ),
        Port.SERVICES: (
            cluster.services,
            lambda: cluster.restart_services(["x"]),
            lambda: cluster.losses("x"),
            lambda: cluster.wipe_service("x"),
            lambda: cluster.set_service("x", running=True),
        ),
    }
    assert Port.NODES not in cluster.lacks
    assert Port.CONFIGURATION not in cluster.lacks
    for port, instead in cluster.lacks.items():
        for ask in asked[port] * 2:
            with pytest.raises(UnsupportedError) as caught:
                ask()
            assert (caught.value.exit_code, caught.value.hint) == (2, instead)
            assert instead


@needs(Port.JOBS, Port.SERVICES, Port.SCHEDULING)
def test_instants_are_aware_and_lie_between_the_epoch_and_now(contract: Contract) -> None:
    key = contract.submit("one", seconds=60)
    contract.job_in(key, JobState.RUNNING)
    contract.pass_time(30)
    cluster = contract.cluster
    job = cluster.job(key)
    instants = [
        *(view.since for view in cluster.nodes()),
        *(view.since for view in cluster.services()),
        *(event.at for event in cluster.events()),
        *(version.at for version in cluster.configurations()),
        job.submitted,
        job.started,
        job.tasks[0].started,
        cluster.picture(history=True).now,
    ]
    for at in instants:
        assert at is not None
        assert at.tzinfo is not None
        assert cluster.epoch <= at <= cluster.now + timedelta(seconds=contract.patience)


@needs(Port.JOBS)
def test_time_never_goes_back_and_another_process_sees_the_same_cluster(contract: Contract) -> None:
    before = contract.cluster.now
    contract.submit("one")
    other = contract.again()
    assert before <= contract.cluster.now <= other.now
    assert (other.name, other.epoch) == (contract.cluster.name, contract.cluster.epoch)
    assert [job.key for job in other.jobs()] == ["ann~one"]


# --- nodes


def test_nodes_are_listed_by_name_with_what_they_have(contract: Contract) -> None:
    nodes = {view.machine.name: view.machine for view in contract.cluster.nodes()}
    assert list(nodes) == ["master1", "worker1", "worker2"]
    assert [machine.role for machine in nodes.values()] == [NodeRole.MASTER, NodeRole.WORKER, NodeRole.WORKER]
    worker = nodes["worker1"]
    assert (worker.devices, worker.device_type) == (1, nodes["worker2"].device_type)
    assert worker.memory >= 2**30
    assert worker.cpu >= 1


def test_a_cordon_is_a_level_and_another_process_sees_it(contract: Contract) -> None:
    cluster = contract.cluster
    for change, wanted in ((NodeChange.CORDON, NodeCondition.CORDONED), (NodeChange.UNCORDON, NodeCondition.READY)):
        for _ in range(2):
            view = cluster.set_node("worker1", change)
            assert (view.machine.name, view.condition) == ("worker1", wanted)
        conditions = {view.machine.name: view.condition for view in contract.again().nodes()}
        assert conditions == {"master1": NodeCondition.READY, "worker1": wanted, "worker2": NodeCondition.READY}
    with pytest.raises(ClusterError):
        cluster.set_node("nobody", NodeChange.CORDON)


@needs(Port.JOBS)
def test_a_cordoned_node_gets_no_new_pods_and_keeps_its_own(contract: Contract) -> None:
    cluster = contract.cluster
    first = contract.submit("first", vc="default")
    node = contract.job_in(first, JobState.RUNNING).tasks[0].node
    assert cluster.set_node(node, NodeChange.CORDON).condition is NodeCondition.CORDONED
    cluster.set_node(node, NodeChange.CORDON)  # a level, not an edge
    assert cluster.job(first).state is JobState.RUNNING
    cluster.stop_job(first)
    contract.until(lambda: _used(contract, node), lambda used: used == 0)
    others = [contract.submit(f"next{n}", vc=vc, priority="oppo") for n, vc in enumerate(("default", "vc1"))]
    placed = {task.node for key in others for task in cluster.job(key).tasks}
    assert node not in placed
    assert cluster.set_node(node, NodeChange.UNCORDON).condition is NodeCondition.READY


@needs(Port.NODES)
def test_windows_are_a_level_that_another_process_sees_and_a_wrong_one_leaves_nothing(contract: Contract) -> None:
    cluster = contract.cluster
    start = cluster.now + timedelta(hours=5)
    window = cluster.add_window(WindowRequest(("worker1",), Millis(3_600_000), start, reason="disks"))
    assert (window.name, window.nodes, window.reason, window.active) == ("maintenance-1", ("worker1",), "disks", False)
    assert window.end - window.start == timedelta(hours=1)
    assert contract.again().windows() == (window,) == cluster.windows()
    for nodes, at in ((("worker1",), start), (("nobody",), start), (("worker2",), cluster.epoch - timedelta(hours=1))):
        with pytest.raises(WindowError):
            cluster.add_window(WindowRequest(nodes, Millis(3_600_000), at))
    assert contract.again().windows() == (window,)
    cluster.remove_window(window.name)
    assert contract.again().windows() == ()
    with pytest.raises(PaictlError):
        cluster.remove_window(window.name)


@needs(Port.JOBS)
def test_who_is_there_when_a_window_begins_starts_again_elsewhere(contract: Contract) -> None:
    cluster = contract.cluster
    job = contract.submit("stays")
    node = contract.job_in(job, JobState.RUNNING).tasks[0].node
    cluster.add_window(WindowRequest((node,), Millis(3_600_000), cluster.now + timedelta(seconds=4)))
    contract.pass_time(5)
    again = contract.until(lambda: cluster.job(job), lambda found: found.attempt == 1 and bool(found.tasks[0].node))
    assert again.tasks[0].node != node
    assert next(window.active for window in contract.again().windows())


@needs(Port.JOBS, Port.SCHEDULING)
def test_who_would_meet_a_window_waits_for_it_and_who_ends_before_runs(contract: Contract) -> None:
    cluster = contract.cluster
    start = cluster.now + timedelta(hours=5)
    window = cluster.add_window(WindowRequest(("worker1", "worker2"), Millis(3_600_000), start))
    ends = contract.submit("ends", max_run_time="1h")
    contract.job_in(ends, JobState.RUNNING)
    waits = contract.submit("waits", vc="vc1")
    found = contract.until(lambda: cluster.explain(waits), lambda found: found.situation is JobSituation.MAINTENANCE)
    assert [one.name for one in found.windows] == [window.name]
    assert cluster.job(waits).state is JobState.WAITING
    cluster.remove_window(window.name)
    contract.job_in(waits, JobState.RUNNING)


def _used(contract: Contract, name: str) -> int:
    return next(view.used for view in contract.cluster.nodes() if view.machine.name == name)


def test_a_node_fails_and_heals_where_machines_are_imagined(contract: Contract) -> None:
    if not contract.imagined:
        for change in (NodeChange.FAIL, NodeChange.HEAL):
            with pytest.raises(UnsupportedError):
                contract.cluster.set_node("worker1", change)
            with pytest.raises(UnsupportedError):
                contract.cluster.set_devices("worker1", change, [0])
        return
    broken = contract.cluster.set_devices("worker1", NodeChange.FAIL, [0])
    assert (broken.condition, broken.bad_devices) == (NodeCondition.READY, (0,))
    assert contract.cluster.set_devices("worker1", NodeChange.HEAL, [0]).bad_devices == ()
    assert contract.cluster.set_node("worker1", NodeChange.FAIL).condition is NodeCondition.FAILED
    assert contract.cluster.set_node("worker1", NodeChange.HEAL).condition is NodeCondition.READY
    kinds = [event.kind for event in contract.cluster.events("node/worker1")]
    assert kinds[-2:] == [EventKind.FAILED, EventKind.READY]


def test_a_name_or_address_is_taken_once_and_a_node_leaves(contract: Contract) -> None:
    cluster = contract.cluster
    like = next(view.machine for view in cluster.nodes() if view.machine.role is NodeRole.WORKER)
    if not contract.imagined:
        for ask in (lambda: cluster.add_node(like), lambda: cluster.remove_node(like.name)):
            with pytest.raises(UnsupportedError):
                ask()
        return
    with pytest.raises(ConflictError):
        cluster.add_node(like)
    added = cluster.add_node(MachineSpec("worker9", "10.0.9.9", NodeRole.WORKER, like.sku, like.cpu, like.memory))
    assert added.machine.name == "worker9"
    assert added.reason, "no configuration names it, so that nothing can run there, and it says so"
    cluster.remove_node("worker9")
    assert "worker9" not in {view.machine.name for view in cluster.nodes()}
    with pytest.raises(ClusterError):
        cluster.set_node("worker9", NodeChange.CORDON)


# --- jobs


@needs(Port.JOBS)
def test_a_job_runs_to_its_end_and_its_events_tell_it(contract: Contract) -> None:
    key = contract.submit("short", seconds=1)
    contract.pass_time(2)
    done = contract.job_in(key, JobState.SUCCEEDED)
    assert done.ended is not None
    kinds = [event.kind for event in contract.cluster.events(f"job/{key}")]
    assert [kind for kind in kinds if kind in _LIFE] == _LIFE
    assert contract.cluster.jobs(ended=False) == []
    numbers = [event.number for event in contract.cluster.events()]
    assert numbers == sorted(set(numbers))
    assert [event.number for event in contract.cluster.events(after=numbers[0])] == numbers[1:]


_LIFE = [EventKind.SUBMITTED, EventKind.STARTED, EventKind.FINISHED, EventKind.SUCCEEDED]


@needs(Port.JOBS)
def test_jobs_are_listed_in_order_and_names_are_taken_once(contract: Contract) -> None:
    keys = [contract.submit(name, vc=vc) for name, vc in (("b", "vc1"), ("a", "default"))]
    assert [job.key for job in contract.cluster.jobs()] == keys == ["ann~b", "ann~a"]
    with pytest.raises(ConflictError):
        contract.submit("a")
    assert contract.submit("a", user="bob") == "bob~a"


@needs(Port.JOBS)
def test_a_job_that_cannot_be_taken_takes_the_others_with_it_and_leaves_nothing(contract: Contract) -> None:
    for bad in ({"vc": "nowhere"}, {"gpu": 64}, {"instances": 10**12, "gang": False}):
        with pytest.raises(PaictlError) as caught:
            contract.cluster.submit([contract.request("good"), contract.request("bad", **bad)])
        assert caught.value.message
    assert [job for job in contract.cluster.jobs() if job.key.endswith("bad")] == []


@needs(Port.JOBS)
def test_to_stop_a_job_can_be_asked_again_and_what_is_not_there_is_an_error(contract: Contract) -> None:
    key = contract.submit("one")
    contract.cluster.stop_job(key)
    contract.job_in(key, JobState.STOPPED)
    contract.cluster.stop_job(key)
    for ask in (contract.cluster.stop_job, contract.cluster.job):
        with pytest.raises(ClusterError):
            ask("ann~nobody")


# --- scheduling


@needs(Port.JOBS, Port.SCHEDULING)
def test_a_waiting_job_is_explained_and_a_running_one_is_not_waiting(contract: Contract) -> None:
    runs = contract.submit("runs")
    contract.job_in(runs, JobState.RUNNING)
    waits = contract.submit("waits")
    answer = contract.until(lambda: contract.cluster.explain(waits), lambda found: found.scheduler is not None)
    assert (answer.job, answer.situation, answer.waiting) == (waits, JobSituation.NO_ROOM, 1)
    assert explaining.data(answer)["decision"] == "wait"
    assert explaining.lines(answer)
    assert contract.cluster.explain(runs).situation is JobSituation.NOT_WAITING


@needs(Port.JOBS, Port.SCHEDULING, Port.SERVICES)
@together
def test_a_job_that_waits_for_a_stopped_service_says_for_which(contract: Contract) -> None:
    contract.job_in(contract.submit("runs"), JobState.RUNNING)
    waits = contract.submit("waits")
    contract.until(lambda: contract.cluster.explain(waits), lambda found: found.scheduler is not None)
    contract.cluster.set_service("hivedscheduler", running=False)
    stopped = contract.cluster.explain(waits)
    assert (stopped.situation, stopped.service) == (JobSituation.SERVICE_STOPPED, "hivedscheduler")
    assert "start it: paictl service start -n hivedscheduler" in explaining.lines(stopped)[1]


@needs(Port.JOBS, Port.SCHEDULING)
def test_what_would_become_of_a_job_is_told_and_nothing_is_submitted(contract: Contract) -> None:
    free = contract.cluster.foresee(contract.request("one"))
    assert (free.job, free.state, explaining.data(free)["decision"]) == ("ann~one", JobState.WAITING, "bind")
    contract.job_in(contract.submit("runs"), JobState.RUNNING)
    full = contract.cluster.foresee(contract.request("one"))
    assert (full.situation, explaining.data(full)["decision"]) == (JobSituation.NO_ROOM, "wait")
    assert [job.key for job in contract.cluster.jobs()] == ["ann~runs"]
    assert contract.submit("one") == "ann~one"
    told = contract.until(lambda: contract.cluster.explain("ann~one"), lambda found: found.scheduler is not None)
    assert explaining.data(told)["decision"] == "wait"
    with pytest.raises(PaictlError, match="nosuch"):
        contract.cluster.foresee(contract.request("two", vc="nosuch"))


@needs(Port.JOBS, Port.SCHEDULING)
def test_the_picture_is_that_of_the_nodes_and_jobs(contract: Contract) -> None:
    key = contract.submit("one", vc="vc1")
    contract.job_in(key, JobState.RUNNING)
    picture = contract.cluster.picture(history=True)
    assert [leaf.job for leaf in picture.leaves()].count(key) == 1
    assert {vc.name: (vc.quota, vc.used) for vc in picture.vcs} == {"default": (1, 0), "vc1": (1, 1)}
    assert picture.timeline is not None
    assert [line.key for line in picture.timeline.jobs] == [key]
    assert picture_data(picture)["now"].endswith("Z")


# --- configuration


@needs(Port.SERVICES, Port.SCHEDULING)
@together
def test_a_push_is_a_version_that_nobody_has_loaded_yet(contract: Contract) -> None:
    cluster = contract.cluster
    first = cluster.configuration()
    files = {**first.files, SERVICES: first.files[SERVICES].replace("vc1:", "vision:")}
    version = cluster.push(files, "renamed", base=first.number)
    assert (version.number > first.number, version.message) == (True, "renamed")
    assert [one.number for one in cluster.configurations()][-2:] == [first.number, version.number]
    assert cluster.configuration(first.number).files == first.files
    loaded = {view.name: view.loaded for view in cluster.services()}
    assert loaded["hivedscheduler"] == first.number
    assert {vc.name for vc in cluster.picture().vcs} == {"default", "vc1"}
    cluster.restart_services(["hivedscheduler", "rest-server"])
    contract.until(lambda: {vc.name for vc in cluster.picture().vcs}, lambda names: names == {"default", "vision"})


def test_versions_are_counted_kept_and_read_back_whole(contract: Contract) -> None:
    cluster = contract.cluster
    first = cluster.configuration()
    odd = {"worker.csv": "a,10.0.0.1\n", "big.yaml": "".join(f"k{n}: ünïcode 中文 {'x' * 60}\n" for n in range(20_000))}
    second = cluster.push({**first.files, **odd}, "with odd names", base=first.number)
    assert cluster.configuration().number == second.number == contract.again().configuration().number
    third = cluster.push(dict(first.files), "without", base=None)
    assert first.number < second.number < third.number
    for reader in (cluster, contract.again()):
        versions = reader.configurations()
        assert [one.number for one in versions] == [first.number, second.number, third.number]
        assert [one.message for one in versions[1:]] == ["with odd names", "without"]
        assert versions[1].files == {**first.files, **odd} == reader.configuration(second.number).files
        assert reader.configuration().files == first.files
        assert [one.at for one in versions] == sorted(one.at for one in versions)


def test_of_two_who_push_on_the_same_version_one_gets_a_conflict(contract: Contract) -> None:
    mine, yours = contract.cluster, contract.again()
    base = mine.configuration()
    mine.push({**base.files, "mine.yaml": "a: 1\n"}, "mine", base=base.number)
    with pytest.raises(ConflictError):
        yours.push({**base.files, "yours.yaml": "a: 1\n"}, "yours", base=base.number)
    assert "yours.yaml" not in mine.configuration().files
    with pytest.raises(ClusterError):
        mine.configuration(base.number + 99)


# --- services


@needs(Port.JOBS, Port.SERVICES)
@together
def test_a_service_stops_and_starts_and_jobs_that_run_are_unharmed(contract: Contract) -> None:
    cluster = contract.cluster
    key = contract.submit("one")
    contract.job_in(key, JobState.RUNNING)
    for running in (False, False, True, True):  # a level, not an edge
        cluster.set_service("hivedscheduler", running=running)
        view = contract.until(lambda: _service(contract), lambda found, wanted=running: found == wanted)  # type: ignore[misc]
        assert view is running
        assert cluster.job(key).state is JobState.RUNNING
    cluster.restart_services(["hivedscheduler", "rest-server"])
    contract.until(lambda: _service(contract), bool)
    assert cluster.job(key).state is JobState.RUNNING


def _service(contract: Contract) -> bool:
    return next(view.ready for view in contract.cluster.services() if view.name == "hivedscheduler")


@needs(Port.JOBS, Port.SERVICES)
@together
def test_what_needs_a_stopped_service_says_which(contract: Contract) -> None:
    contract.cluster.set_service("rest-server", running=False)
    with pytest.raises(PaictlError) as caught:
        contract.submit("one")
    assert caught.value.exit_code == 4
    assert "rest-server" in f"{caught.value} {caught.value.hint}"


@needs(Port.JOBS, Port.SERVICES)
@together
def test_a_deleted_service_is_not_there_and_its_data_are_told_before(contract: Contract) -> None:
    key = contract.submit("one")
    contract.cluster.stop_job(key)
    losses = contract.cluster.losses("cluster-configuration")
    assert losses is None or f"{len(contract.cluster.configurations())} version" in losses[0]
    contract.cluster.wipe_service("grafana")
    contract.cluster.wipe_service("grafana")
    assert "grafana" not in {view.name for view in contract.cluster.services()}
    with pytest.raises(ClusterError):
        contract.cluster.set_service("nobody", running=True)
