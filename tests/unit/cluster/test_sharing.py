"""Budgets and limits for users on a cluster on this machine: who waits, who is refused, and what is said of it."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from paictl.cluster.interface import FOREVER, ClusterError, ConflictError, JobRequest, JobState, NodeChange
from paictl.operate.budgeting import plan_budget, send_budget
from paictl.operate.budgets import sharing_of
from paictl.operate.explaining import lines
from paictl.operate.limits import limits
from paictl.units import Millis
from paictl.workload.budgets import month_of
from paictl.workload.usage import UsageKind
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench

HOUR = 60 * MINUTE
NAME = "services-configuration.yaml"


def load(lab: Bench, section: str) -> None:
    """The scheduler starts anew with this section `sharing`."""
    files = dict(lab.cluster.configuration().files)
    text = files[NAME].partition("sharing:")[0]
    lab.cluster.push({**files, NAME: f"{text}{section}"}, "sharing")
    lab.cluster.restart_services(["hivedscheduler"])


@pytest.fixture
def lab(bench: MakeBench) -> Bench:
    return bench("three-tenants")


def submit(lab: Bench, user: str, name: str, vc: str = "tenanta", priority: str = "test", **options: object) -> str:
    duration = options.pop("duration", FOREVER)
    request = JobRequest(user, lab.job(name, vc, **options), None, priority, duration)  # type: ignore[arg-type]
    return lab.cluster.submit([request])[0].key


def said(lab: Bench, key: str) -> str:
    return " ".join(map(str, lines(lab.cluster.explain(key))))


def kinds(lab: Bench, subject: str) -> list[str]:
    return [event.kind.value for event in lab.cluster.events(subject)]


def test_a_user_has_no_more_tasks_than_allowed_whatever_they_ask_for(lab: Bench) -> None:
    """One of them could take all that the cluster has for tasks that wait or run."""
    load(lab, "sharing: {task-limits: [{tasks: 3}, {user: bob, tasks: 5}]}\n")
    first = submit(lab, "ann", "first", priority="oppo", instances=2, gang=False)
    with pytest.raises(ClusterError, match="tasks of user ann are limited to 3: 2 in jobs that have not ended, 2 more"):
        submit(lab, "ann", "second", "tenantb", instances=2)
    submit(lab, "bob", "third", "tenantb", instances=4, gang=False)
    lab.cluster.stop_job(first)
    submit(lab, "ann", "fourth", instances=3)
    load(lab, "")
    submit(lab, "ann", "fifth", instances=3)


def test_task_limits_replace_the_bound_that_counts_without_them(lab: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.cluster.embedded.sharing.MOST_OF_USER", 3)
    load(lab, "sharing: {task-limits: [{user: ann, tasks: 5}]}\n")
    submit(lab, "ann", "first", priority="oppo", instances=4, gang=False)
    with pytest.raises(ClusterError, match="tasks of user bob are limited to 3"):
        submit(lab, "bob", "first", priority="oppo", instances=4, gang=False)


def test_jobs_of_a_tenant_wait_from_the_instant_at_which_its_budget_is_used_up_until_the_next_month(lab: Bench) -> None:
    load(lab, "sharing: {budgets: [{vc: tenanta, device-hours: 4}]}\n")
    first = submit(lab, "ann", "first", gpu=4, duration=Millis(2 * HOUR))
    lab.pass_time(59 * MINUTE)
    in_time = submit(lab, "bob", "in-time", duration=Millis(HOUR))
    lab.pass_time(2 * MINUTE)
    late, other = submit(lab, "bob", "late"), submit(lab, "bob", "other", "tenantb")
    lent = submit(lab, "ann", "lent", priority="oppo")
    states = [lab.state(key) for key in (first, in_time, late, other, lent)]
    assert states == ["Running", "Running", "Waiting", "Running", "Waiting"], "what runs goes on"
    assert "the budget of virtual cluster tenanta is used up: 4 device hours in 1970-01" in said(lab, late)
    assert "1970-02-01" in said(lab, late)
    left = month_end(lab) - lab.cluster.present
    lab.pass_time(left - 1)
    assert lab.state(late) == "Waiting"
    lab.pass_time(1)
    assert [lab.state(key) for key in (late, lent)] == ["Running", "Running"]


def month_end(lab: Bench) -> Millis:
    epoch = round(lab.cluster.epoch.timestamp() * 1000)
    return Millis(month_of(Millis(month_of(Millis(epoch)) + 40 * 24 * HOUR)) - epoch)


def test_a_cluster_that_runs_out_of_events_does_not_wait_for_months_without_end(bench: MakeBench) -> None:
    lab = bench("three-tenants", clock=(0.0, True))
    load(lab, "sharing: {budgets: [{vc: tenanta, device-hours: 1}, {vc: tenantb, device-hours: 0}]}\n")
    submit(lab, "ann", "for-ever", gpu=8, instances=1)
    never = submit(lab, "ann", "never", "tenantb")
    waits = [submit(lab, "bob", f"waits{n}", gpu=8) for n in range(3)]
    assert lab.state(never) == "Waiting"
    assert {lab.state(key) for key in waits} <= {"Waiting", "Running"}
    assert "0 device hours" in said(lab, never)


def test_users_have_budgets_of_their_own_and_each_is_counted_apart(lab: Bench) -> None:
    rows = "{vc: tenanta, user: ann, device-hours: 2}, {vc: tenanta, user: '*', device-hours: 1}"
    load(lab, f"sharing: {{budgets: [{rows}]}}\n")
    for user in ("ann", "bob"):
        submit(lab, user, "first", duration=Millis(HOUR))
    lab.pass_time(HOUR)
    again = {user: submit(lab, user, "again") for user in ("ann", "bob", "cyd")}
    assert {user: lab.state(key) for user, key in again.items()} == {
        "ann": "Running",
        "bob": "Waiting",
        "cyd": "Running",
    }


def test_a_budget_that_refuses_takes_no_new_job_and_one_that_warns_holds_nobody(lab: Bench) -> None:
    rows = "{vc: tenanta, device-hours: 1, over: refuse}, {vc: tenantb, device-hours: 1, over: warn}"
    load(lab, f"sharing: {{budgets: [{rows}]}}\n")
    for vc in ("tenanta", "tenantb"):
        submit(lab, "ann", f"first-{vc}", vc, duration=Millis(HOUR))
    lab.pass_time(HOUR)
    with pytest.raises(ClusterError, match="ann~second is refused: the budget of virtual cluster tenanta is used up"):
        submit(lab, "ann", "second")
    assert lab.state(submit(lab, "ann", "third", "tenantb")) == "Running"
    assert kinds(lab, "vc/tenantb") == ["BudgetSpent"]


def test_a_warning_comes_once_and_again_with_the_next_month(lab: Bench) -> None:
    load(lab, "sharing: {budgets: [{vc: tenanta, device-hours: 10, warn-at: 50}]}\n")
    submit(lab, "ann", "first")
    for _ in range(11):
        lab.pass_time(HOUR)
    assert kinds(lab, "vc/tenanta") == ["BudgetWarning", "BudgetSpent"]
    lab.pass_time(month_end(lab) - lab.cluster.present + 6 * HOUR)
    lab.pass_time(HOUR)
    assert kinds(lab, "vc/tenanta")[2:] == ["BudgetWarning"]


def test_a_gang_that_runs_is_completed_whatever_its_budget(lab: Bench) -> None:
    load(lab, "sharing: {budgets: [{vc: tenantb, device-hours: 1}]}\n")
    hived = {"taskRoles": {"train": {"affinityGroupName": "both"}}}
    key = submit(lab, "ann", "both", "tenantb", "oppo", gpu=8, instances=2, gang=False, hived=hived)
    lost = lab.cluster.job(key).tasks[0].node
    lab.cluster.set_node(lost, NodeChange.FAIL)
    lab.pass_time(HOUR)
    assert "Lost" in kinds(lab, f"job/{key}")
    assert {task.state for task in lab.cluster.job(key).tasks} == {"Running"}
    assert lab.state(submit(lab, "ann", "new", "tenantb")) == "Waiting"


def test_what_was_used_before_the_budget_was_made_counts_and_survives_every_process(lab: Bench) -> None:
    submit(lab, "ann", "early", gpu=2, duration=Millis(HOUR))
    lab.pass_time(3 * HOUR)
    load(lab, "sharing: {budgets: [{vc: tenanta, device-hours: 2}]}\n")
    again = lab.again()
    key = again.submit([JobRequest("ann", lab.job("late", "tenanta"), None, "test", FOREVER)])[0].key
    assert again.job(key).state is JobState.WAITING


def test_a_cluster_of_an_earlier_version_adds_the_month_up_from_its_accounts(lab: Bench) -> None:
    submit(lab, "ann", "early", gpu=2, duration=Millis(HOUR))
    lab.pass_time(2 * HOUR)
    store = lab.cluster._store
    with store.writing():
        state = store.state()
        kept = state.pop("month")
        store.set_state(state)
    load(lab, "sharing: {budgets: [{vc: tenanta, device-hours: 2}]}\n")
    assert lab.state(submit(lab, "ann", "late")) == "Waiting"
    assert store.state()["month"]["used"] == kept["used"] == [["tenanta", "ann", 2 * HOUR]]


def test_no_user_holds_more_devices_with_a_guarantee_than_the_limit(lab: Bench) -> None:
    load(lab, "sharing: {user-limits: [{vc: tenanta, devices: 4}, {vc: tenanta, user: bob, devices: 6}]}\n")
    ann = [submit(lab, "ann", f"job{n}", gpu=2) for n in range(3)]
    bob = submit(lab, "bob", "job", gpu=2, instances=3)
    lent = submit(lab, "ann", "lent", gpu=2, priority="oppo")
    elsewhere = submit(lab, "ann", "elsewhere", "tenantb", gpu=8)
    assert [lab.state(key) for key in ann] == ["Running", "Running", "Waiting"]
    assert [lab.state(key) for key in (bob, lent, elsewhere)] == ["Running"] * 3
    assert "user ann may hold 4 guaranteed devices in virtual cluster tenanta, holds 4, and this needs 2" in said(
        lab, ann[2]
    )
    lab.cluster.stop_job(ann[0])
    assert lab.state(ann[2]) == "Running"


def test_a_gang_larger_than_its_users_limit_is_refused(lab: Bench) -> None:
    load(lab, "sharing: {user-limits: [{vc: tenanta, devices: 4}]}\n")
    with pytest.raises(ClusterError, match="needs 8 devices at once, and user ann may hold 4"):
        submit(lab, "ann", "large", gpu=4, instances=2)
    assert lab.state(submit(lab, "ann", "apart", gpu=4, instances=2, gang=False)) == "Running"
    assert lab.state(submit(lab, "ann", "lent", gpu=4, instances=2, priority="oppo")) in ("Running", "Waiting")


def test_a_tenant_lends_no_more_than_its_limit_and_uses_its_own_promise_freely(lab: Bench) -> None:
    load(lab, "sharing: {lend-limits: [{vc: tenanta, devices: 4}, {vc: tenantc, devices: 0}]}\n")
    lent = [submit(lab, "bob", f"lent{n}", "tenantb", "oppo", gpu=6) for n in range(3)]
    assert [lab.state(key) for key in lent] == ["Running"] * 3, "14 of its own, 4 of tenanta's"
    more = submit(lab, "bob", "more", "tenantb", "oppo", gpu=1)
    assert lab.state(more) == "Waiting"
    assert "no devices can be borrowed now; lend limits keep them free for: tenanta 8, tenantc 6" in said(lab, more)
    assert lab.state(submit(lab, "ann", "own", "tenantc", "oppo", gpu=4)) == "Running"
    assert lab.state(submit(lab, "ann", "owner", "tenanta", gpu=8)) == "Running"
    rows = {(one.vc, one.kind): (one.held, one.most) for one in limits(lab.cluster)}
    assert rows == {("tenanta", "lendable"): (4, 4), ("tenantc", "lendable"): (0, 0)}
    assert lab.state(more) == "Waiting"
    lab.cluster.stop_job(lent[0])
    assert lab.state(more) == "Running"


def test_a_tenant_borrows_no_more_devices_than_its_limit(lab: Bench) -> None:
    load(lab, "sharing: {borrow-limits: [{vc: tenanta, devices: 4}]}\n")
    lent = [submit(lab, "ann", f"lent{n}", priority="oppo", gpu=2) for n in range(3)]
    other = submit(lab, "ann", "other", "tenantb", "oppo", gpu=8)
    own = submit(lab, "ann", "own", gpu=4)
    assert [lab.state(key) for key in lent] == ["Running", "Running", "Waiting"]
    assert [lab.state(key) for key in (other, own)] == ["Running", "Running"]
    assert "virtual cluster tenanta may borrow 4 devices, borrows 4, and this needs 2" in said(lab, lent[2])
    lab.cluster.stop_job(lent[0])
    assert lab.state(lent[2]) == "Running"
    with pytest.raises(ClusterError, match="needs 8 devices at once, and virtual cluster tenanta may borrow 4"):
        submit(lab, "ann", "large", priority="oppo", gpu=8)


def test_a_gang_that_lost_its_guarantee_counts_as_borrowing(bench: MakeBench) -> None:
    lab = bench("lab")
    load(lab, "sharing: {borrow-limits: [{vc: vc1, devices: 1}], user-limits: [{vc: vc1, devices: 100}]}\n")
    low = submit(lab, "ann", "low", "vc1", hived={"lazyPreemptionEnable": True})
    for number in range(40):
        submit(lab, "bob", f"high{number}", "vc1", "prod")
        if "Demoted" in kinds(lab, f"job/{low}"):
            break
    assert "Demoted" in kinds(lab, f"job/{low}")
    lent = submit(lab, "ann", "lent", "vc1", "oppo")
    assert lab.state(lent) == "Waiting"
    assert "borrows 1" in said(lab, lent)
    assert ("vc1", "ann") not in lab.cluster.held_devices()


def test_without_the_section_nothing_is_held_back_any_more(lab: Bench) -> None:
    load(lab, "sharing: {user-limits: [{vc: tenanta, devices: 1}]}\n")
    jobs = [submit(lab, "ann", f"job{n}") for n in range(2)]
    assert [lab.state(key) for key in jobs] == ["Running", "Waiting"]
    load(lab, "")
    assert [lab.state(key) for key in jobs] == ["Running", "Running"]


@pytest.mark.parametrize("seed", range(3))
def test_at_no_time_is_a_limit_exceeded_or_a_pod_started_over_its_budget(bench: MakeBench, seed: int) -> None:
    lab, rng = bench("three-tenants"), random.Random(seed)  # noqa: S311 - a property test
    load(
        lab,
        "sharing: {budgets: [{vc: tenanta, user: '*', device-hours: 9}], user-limits: [{vc: tenantb, devices: 5}]}\n",
    )
    users = ("ann", "bob")
    keys: list[str] = []
    for number in range(40):
        match rng.randrange(5):
            case 0 if keys:
                lab.cluster.stop_job(keys.pop(rng.randrange(len(keys))))
            case 1:
                lab.pass_time(rng.randrange(1, 40) * MINUTE)
            case _:
                priority, vc = rng.choice(("test", "prod", "oppo")), rng.choice(("tenanta", "tenantb"))
                gpu, many = rng.choice((1, 2)), rng.choice((1, 2))
                key = submit(
                    lab,
                    rng.choice(users),
                    f"job{number}",
                    vc,
                    priority,
                    gpu=gpu,
                    instances=many,
                    duration=Millis(rng.randrange(5, 90) * MINUTE),
                )
                keys.append(key)
        held: Counter[tuple[str, str]] = Counter()
        for job in lab.cluster.jobs(ended=False):
            if job.priority != "oppo" and job.used:
                held[job.vc, job.key.partition("~")[0]] += job.devices
        assert all(held["tenantb", user] <= 5 for user in users)
    check_starts(lab)


def check_starts(lab: Bench) -> None:
    """No pod of a user has started in tenanta when what was booked until then was as much as the budget."""
    for event in lab.cluster.events():
        if event.kind.value == "Started" and "role" in event.data:
            job = lab.cluster.job(event.subject.partition("/")[2])
            user = job.key.partition("~")[0]
            if job.vc == "tenanta":
                used = lab.cluster.usage(lab.cluster.epoch, event.at).amounts
                kinds = (UsageKind.GUARANTEED, UsageKind.OPPORTUNISTIC)
                total = sum(one.amount for one in used if one.kind in kinds and (one.vc, one.user) == ("tenanta", user))
                assert total < 9 * HOUR, "it started over its budget"


def test_of_two_who_set_budgets_at_once_one_is_told_to_do_it_again(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    plans = [plan_budget(lab.cluster, "tenanta", user, {"device-hours": 4}) for user in ("ann", "bob")]
    send_budget(lab.cluster, plans[0], "first")
    with pytest.raises(ConflictError) as refused:
        send_budget(lab.again(), plans[1], "second")
    assert refused.value.hint == "run the same command again"
    send_budget(lab.cluster, plan_budget(lab.cluster, "tenanta", "bob", {"device-hours": 4}), "second")
    rules = sharing_of(lab.cluster).budgets
    assert [one.user for one in rules.all] == ["ann", "bob"]
