"""Budgets and limits for users behind the extender: who waits and why, over midnights, kills and restarts."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from paictl.cluster.kubernetes.names import JOB_KEY
from paictl.cluster.pods.labels import Rules
from paictl.cluster.pods.times import CHECKPOINT_EVERY, SAVES_ON_SIGTERM
from paictl.doors.configuration import digest_of, read
from paictl.doors.core import DoorOptions
from paictl.doors.housekeeping import to_requeue
from paictl.doors.manifests import Choices, objects
from paictl.doors.metrics import DoorMetrics
from paictl.doors.term import BudgetWatch
from paictl.doors.views import explain_pod
from paictl.remote.kube.client import Json
from paictl.workload.budgets import SECTION
from paictl.workload.sharing import read_sharing
from tests.unit.extender.conftest import CONFIG, spec
from tests.unit.extender.harness import gang
from tests.unit.extender.test_accounts import Office

OPERATIONS = 5_000 if os.environ.get("PAICTL_SOAK") else 250
DECEMBER = datetime(2026, 12, 1, tzinfo=UTC).timestamp()


def office(section: Json) -> Office:
    """A door with its accountant under a section `sharing`."""
    return Office(DoorOptions(rules=Rules(skus=spec().sku_types), sharing=read_sharing(section)))


def of(user: str, made: Json) -> Json:
    """The pod as one of a job of paictl."""
    made["metadata"]["annotations"][JOB_KEY] = f"{user}~{made['metadata']['name']}"
    made["metadata"]["namespace"] = "paictl-jobs"
    return made


def look(one: Office) -> None:
    """What the watch does every few seconds."""
    assert one.accounts.attempt()
    assert BudgetWatch(one.accounts.used_in_month, one.harness.core.month_used).look()


def why(one: Office, made: Json) -> str:
    """What kube-scheduler is told about a pod, the same for all nodes; empty if it gets a place."""
    answer = one.harness.ask(made)
    return "" if answer.names else next(iter(answer.failed.values()))


def test_a_tenant_waits_from_its_budget_to_the_next_month_and_others_do_not() -> None:
    one = office({"budgets": [{"vc": "A", "device-hours": 4}]})
    look(one)
    runs = one.run(gang("runs", 1, 4)[0])
    one.harness.now += 3600
    look(one)
    late = gang("late", 1, 2)[0]
    said = "pod waits: the budget of virtual cluster A is used up: 4 device hours in 2026-11; it resets on "
    said += "2026-12-01"
    assert why(one, late) == said
    assert why(one, gang("lent", 1, 2, priority=-1)[0]) == said
    assert one.run(gang("other", 1, 4, "B")[0])
    assert explain_pod(one.harness.core, "default", "late-0")["situation"] == "held back"
    one.end(runs)
    one.harness.now += 3600
    assert to_requeue(one.harness.core) == [], "a release does not matter to it"
    one.harness.now = DECEMBER + 10
    look(one)
    assert {ref.name for ref in to_requeue(one.harness.core)} >= {"late-0"}
    assert why(one, late) == ""


def test_use_of_the_month_is_that_of_all_its_days_whatever_is_killed() -> None:
    one = office({"budgets": [{"user": "ann", "device-hours": 30}]})
    look(one)
    uid = one.run(of("ann", gang("long", 1, 4)[0]))
    for _ in range(7):
        one.harness.now += 3600
        look(one)
    one.kill()
    look(one)
    assert one.accounts.used_in_month() == Counter({("A", "ann"): 28 * 3_600_000})
    assert why(one, of("ann", gang("in-time", 1, 2)[0])) == ""
    one.harness.now += 1800
    look(one)
    one.end(uid)
    assert "the budget of user ann is used up" in why(one, of("ann", gang("late", 1, 2)[0]))
    assert why(one, of("bob", gang("bob", 1, 2)[0])) == ""


def test_until_the_accounts_are_read_nobody_with_a_budget_starts() -> None:
    one = office({"budgets": [{"vc": "A", "device-hours": 4}, {"vc": "B", "device-hours": 0, "over": "warn"}]})
    assert "the accounts have not been read yet" in why(one, gang("a", 1, 2)[0])
    assert why(one, gang("b", 1, 2, "B")[0]) == "", "its budget holds nobody"
    look(one)
    assert why(one, one.harness.server.pods["default/a-0"]) == ""


def test_a_gang_that_has_begun_is_finished() -> None:
    one = office({"budgets": [{"vc": "A", "device-hours": 4}]})
    look(one)
    first, second = gang("both", 2, 4)
    assert one.run(first)
    one.harness.now += 3600
    look(one)
    assert one.run(second)


def test_a_user_waits_at_the_limit_until_devices_are_given_back() -> None:
    one = office({"user-limits": [{"vc": "A", "devices": 4}, {"vc": "A", "user": "bob", "devices": 8}]})
    first = one.run(of("ann", gang("first", 1, 4)[0]))
    second = of("ann", gang("second", 1, 1)[0])
    assert why(one, second) == (
        "pod waits: user ann may hold 4 guaranteed devices in virtual cluster A, holds 4, and this needs 1"
    )
    assert why(one, of("ann", gang("lent", 1, 4, priority=-1)[0])) == ""
    assert one.run(of("bob", gang("bob", 1, 4)[0]))
    one.kill()
    assert "holds 4" in why(one, second), "it is known again after a restart"
    text = DoorMetrics(lambda: one.harness.core).text().decode()
    assert 'paictl_extender_user_devices{user="ann",vc="A"} 4.0' in text
    assert 'paictl_extender_user_devices_limit{user="bob",vc="A"} 8.0' in text
    one.end(first)
    assert why(one, second) == ""


def test_who_waits_is_told_what_it_waits_for_now() -> None:
    one = office({"user-limits": [{"vc": "A", "devices": 4}]})
    full = [one.run(of(user, gang(f"of-{user}", 1, 4)[0])) for user in ("bob", "cyd", "dan")]
    late = of("ann", gang("late", 1, 4)[0])
    assert "leaf cells needed" in why(one, late)
    one.end(full[0])
    one.run(of("ann", gang("other", 1, 4)[0]))
    one.harness.now += 10
    assert to_requeue(one.harness.core) == []
    assert why(one, late).endswith("may hold 4 guaranteed devices in virtual cluster A, holds 4, and this needs 4")


def test_metrics_of_budgets_are_there_only_with_budgets() -> None:
    one = office({"budgets": [{"vc": "A", "device-hours": 10}]})
    look(one)
    one.run(gang("runs", 1, 4)[0])
    one.harness.now += 3600
    look(one)
    text = DoorMetrics(lambda: one.harness.core).text().decode()
    assert 'paictl_extender_budget_used_hours{user="",vc="A"} 4.0' in text
    assert 'paictl_extender_budget_hours{user="",vc="A"} 10.0' in text
    assert "budget" not in DoorMetrics(lambda: Office().harness.core).text().decode()


def test_a_tenant_lends_no_more_than_its_limit() -> None:
    one = office({"lend-limits": [{"vc": "A", "devices": 4}]})
    lent = [one.run(gang(f"lent{number}", 1, 4, "B", priority=-1)[0]) for number in range(2)]
    assert all(lent), "4 of its own, 4 of A's"
    assert "lend limits keep them free for: A 8" in why(one, gang("more", 1, 1, "B", priority=-1)[0])
    one.kill()
    assert "no devices can be borrowed now" in why(one, gang("more", 1, 1, "B", priority=-1)[0])
    text = DoorMetrics(lambda: one.harness.core).text().decode()
    assert 'paictl_extender_lendable_devices{vc="A"} 4.0' in text
    assert 'paictl_extender_lend_limit{vc="A"} 4.0' in text
    assert one.run(gang("own", 1, 4, "A", priority=-1)[0])
    one.end(lent[0])
    assert one.run(gang("again", 1, 4, "B", priority=-1)[0])


@pytest.mark.parametrize("seed", range(3))
def test_what_users_hold_is_the_sum_over_groups_and_never_above_their_limit(seed: int) -> None:
    section = {"user-limits": [{"vc": "A", "devices": 5}], "borrow-limits": [{"vc": "A", "devices": 6}]}
    one, rng = office(section), random.Random(seed)  # noqa: S311 - a property test
    number = 0
    for _ in range(OPERATIONS):
        match rng.randrange(6):
            case 0 if one.bound:
                one.end(rng.choice(list(one.bound)))
            case 1 if rng.random() < 0.2:
                one.kill()
            case _:
                number += 1
                size, pods = rng.choice(((1, 1), (2, 1), (2, 2), (4, 1)))
                priority = rng.choice((-1, 0, 5))
                made = gang(f"job{number}", pods, size, priority=priority, lazyPreemptionEnable=rng.random() < 0.3)
                user = rng.choice(("ann", "bob"))
                for pod in made:
                    if one.harness.ask(of(user, pod)).names:
                        assert priority < 0 or held(one)[user] <= 5, "it started beyond the limit"
                        assert priority >= 0 or one.harness.core.allowances.borrowers()[0][1] <= 6
                        one.harness.run(pod)
                        one.bound[pod["metadata"]["uid"]] = pod
                        one.tell(pod)
                    else:
                        one.harness.delete(pod["metadata"]["name"], "paictl-jobs")
        held(one)


def held(one: Office) -> Counter[str]:
    """What users hold in A by the groups alone, which is what is said."""
    core = one.harness.core
    found: Counter[str] = Counter()
    for group in core.book.engine.state.groups.by_name.values():
        if group.virtual is not None:
            uid = next((uid for row in group.pods for uid in row if uid), next(iter(group.preempting), ""))
            found[core.table.by_uid[uid].user] += sum(size * pods for size, pods in group.members)
    said = {user: devices for vc, user, devices, _ in core.allowances.holders() if vc == "A"}
    assert said == {user: devices for user, devices in found.items() if user}
    (borrowed,) = core.allowances.borrowers()
    lent = (group for group in core.book.engine.state.groups.by_name.values() if group.virtual is None)
    assert borrowed == ("A", sum(size * pods for group in lent for size, pods in group.members), 6)
    return found


def begin(one: Office, made: Json, checkpoint: str = "", save: str = "") -> str:
    """A pod runs, and its kubelet has said so."""
    if checkpoint:
        made["metadata"]["annotations"][CHECKPOINT_EVERY] = checkpoint
    if save:
        made["metadata"]["annotations"][SAVES_ON_SIGTERM] = save
    uid = one.run(made)
    made["status"]["startTime"] = one.stamp()
    one.tell(made)
    return uid


def goes(one: Office, made: Json) -> set[str]:
    """The uids of the pods that have to go for a pod."""
    assert not one.harness.ask(made).names
    (found,) = one.harness.core.book.preemptions()
    return {uid for _, uids in found.victims for uid in uids}


def test_the_pod_goes_that_loses_least_also_after_a_restart() -> None:
    one = office({"preemption": {"victims": "least-loss"}})
    uids = []
    for number, checkpoint in enumerate(("", "29m", "", "")):
        uids.append(begin(one, gang(f"lent{number}", 1, 4, "B", priority=-1)[0], checkpoint))
        one.harness.now += 600
    one.kill()
    assert goes(one, gang("owner", 1, 4)[0]) == {uids[1]}


@pytest.mark.parametrize(
    ("said", "grace", "gone"), [("true", 120, 0), ("true", 300, 0), ("false", 120, 1), ("true", 0, 1), ("true", 301, 1)]
)
def test_a_pod_that_saves_its_work_on_sigterm_goes_first(said: str, grace: int, gone: int) -> None:
    """Unless it is killed before: victims have 300 seconds at most."""
    one = office({"preemption": {"victims": "least-loss"}})
    uids = []
    for number, (checkpoint, save) in enumerate((("1h", said), ("1m", ""), ("", ""), ("", ""))):
        pod = gang(f"lent{number}", 1, 4, "B", priority=-1)[0]
        pod["spec"]["terminationGracePeriodSeconds"] = grace
        uids.append(begin(one, pod, checkpoint, save))
        one.harness.now += 600
    one.harness.now += 30
    one.kill()
    assert goes(one, gang("owner", 1, 4)[0]) == {uids[gone]}


def test_a_gang_is_as_far_back_as_its_member_that_saves_its_work_least() -> None:
    one = office({"preemption": {"victims": "least-loss"}})
    split = gang("split", 2, 4, "B", priority=-1)
    uids = [begin(one, pod, save="true" if number == 0 else "") for number, pod in enumerate(split)]
    one.harness.now += 600
    other = [begin(one, pod) for pod in gang("other", 2, 4, "B", priority=-1)]
    one.harness.now += 600
    assert goes(one, gang("owner", 1, 4)[0]) == set(other)
    assert uids


def test_a_stronger_pod_of_a_tenant_waits_for_the_minimum_run_time_and_is_asked_again_after_it() -> None:
    one = office({"min-run-times": [{"vc": "A", "time": "10m"}]})
    weak = begin(one, gang("weak", 1, 4, "B")[0])
    assert goes_now(one, gang("first", 1, 4, "B", priority=5)[0]), "B has no minimum run time"
    one.end(weak)
    three = [begin(one, gang(f"a{number}", 1, 4)[0]) for number in range(3)]
    strong = gang("strong", 1, 4, priority=5)[0]
    assert "have not run for their minimum run time yet" in why(one, strong)
    one.harness.now += 599
    assert "have not run for their minimum run time yet" in why(one, strong), "the answer is made anew"
    assert to_requeue(one.harness.core) == []
    one.harness.now += 62
    assert [ref.name for ref in to_requeue(one.harness.core)] == ["strong-0"]
    assert goes(one, strong) <= set(three)


def test_who_is_bound_and_never_starts_holds_no_stronger_pod_up() -> None:
    one = office({"min-run-times": [{"vc": "A", "time": "10m"}]})
    bound = [one.run(gang(f"a{number}", 1, 4)[0]) for number in range(3)]
    assert goes(one, gang("strong", 1, 4, priority=5)[0]) <= set(bound)


def goes_now(one: Office, made: Json) -> bool:
    """Whether others go for a pod; it is deleted again, and they stay."""
    found = bool(goes(one, made))
    one.harness.delete(made["metadata"]["name"])
    return found


def test_the_section_comes_with_the_manifests_and_is_read_from_its_own_file(tmp_path: Path) -> None:
    section = {"budgets": [{"vc": "A", "device-hours": 4}]}
    for door in ("extender", "gates"):
        made = objects(Choices(door=door, hived_config=json.dumps(CONFIG), sharing=section), "1")
        config = next(one for one in made if one["kind"] == "ConfigMap" and "sharing.yaml" in one["data"])
        text = json.dumps(made)
        assert '"--sharing", "/etc/hivedscheduler/sharing.yaml"' in text
        hived, file = tmp_path / "hivedscheduler.yaml", tmp_path / "sharing.yaml"
        hived.write_text(config["data"]["hivedscheduler.yaml"], encoding="utf-8")
        file.write_text(config["data"]["sharing.yaml"], encoding="utf-8")
        found = read(hived, file)
        assert [(one.vc, one.hours) for one in found.sharing.budgets.all] == [("A", 4.0)]
        assert digest_of(hived, file) != digest_of(hived)
    assert SECTION not in json.dumps(objects(Choices(), "1"))
