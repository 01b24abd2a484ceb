"""What a door remembers of promised starts is what it would find anew, after any history."""

from __future__ import annotations

import random
from datetime import UTC, datetime

from paictl.cluster.pods.labels import Rules
from paictl.cluster.pods.lines import PodTimes, WaitingPod, end_of, lines
from paictl.cluster.pods.nodes import NodeStatus
from paictl.doors.core import DoorOptions
from paictl.remote.kube.client import Json
from paictl.units import Millis
from paictl.workload.backfill import HOPELESS, Foresight, LineGang, StartPromise
from paictl.workload.sharing import read_sharing
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Harness
from tests.unit.extender.test_starts import HOUR, OPERATIONS, begin, pods


def anew(harness: Harness) -> tuple[dict[str, StartPromise], Foresight]:
    """The promises as the core alone gives them, from all pods, with nothing remembered but who had one."""
    core, now = harness.core, Millis(int(1000 * harness.now))
    engine, rules, placed = core.book.engine, core.options.sharing.backfill, core.book.engine.state.groups.by_name

    def times(uid: str) -> PodTimes | None:
        entry = core.table.by_uid.get(uid)
        return None if entry is None else PodTimes(entry.limit, entry.began)

    foresight = Foresight(engine, now, lambda group: end_of(engine, group, times, now))
    foresight.counts = False
    waiting = [
        WaitingPod(entry.reading.request, entry.limit, entry.created)
        for entry in core.table
        if entry.reading is not None and not entry.runs and not entry.deleting and core.in_line(entry)
    ]
    found = dict[str, StartPromise]()
    for vc, line in lines(waiting, rules, placed).items():
        ranked = sorted(line, key=lambda gang: core.starts._backfill.rank(gang.request))
        promise = foresight.promise([gang for gang in ranked if not core.starts._stalls(gang)][:HOPELESS])
        if promise is not None:
            found[vc] = promise
    return found, foresight


def compare(harness: Harness) -> tuple[int, int, int]:
    """Compare all promises and who waits for them with what would be found anew.

    How many promises there are, how many of them for later, and how many gangs wait for those.
    """
    expected, foresight = anew(harness)
    core, held = harness.core, 0
    assert core.starts.promises() == expected
    for entry in core.table:
        request = None if entry.reading is None else entry.reading.request
        promise = None if request is None else expected.get(request.vc)
        if request is None or promise is None or not request.guaranteed or entry.runs:
            continue
        if request.group not in core.book.engine.state.groups.by_name:
            late = foresight.delayed(LineGang(request, entry.limit), promise)
            assert bool(core.starts.obstacle(request)) == late, request
            held += late
    ahead = sum(one.at is not None and one.at > 1000 * harness.now for one in expected.values())
    return len(expected), ahead, held


def test_what_is_remembered_is_what_would_be_found_anew() -> None:
    seen = [remembered(random.Random(seed)) for seed in range(4)]  # noqa: S311 - a property test
    promises, ahead, held = map(sum, zip(*seen, strict=True))
    assert promises > 4 * OPERATIONS
    assert ahead > OPERATIONS / 2
    assert held > OPERATIONS / 4


def starts(harness: Harness, pod: Json) -> bool:
    """Ask about a pod as kube-scheduler does, and bind it if it has a place; whether so."""
    names = harness.ask(pod).names
    if len(names) == 1:
        assert harness.bind(pod, names[0]) == ""
    return len(names) == 1


def remembered(rng: random.Random) -> tuple[int, int, int]:
    """Play a history; as `compare`, in total."""
    sharing = read_sharing({"backfill": [{"mode": "easy"}], "user-limits": [{"vc": "A", "devices": 10}]})
    harness = Harness(spec(), DoorOptions(rules=Rules(skus=spec().sku_types), sharing=sharing))
    harness.now = datetime(2026, 11, 25, tzinfo=UTC).timestamp()
    harness.open(NODES)
    core, known, unbegun = harness.core, dict[str, Json](), list[Json]()
    seen = []
    for number in range(5 * OPERATIONS):
        match rng.randrange(12):
            case 0 | 1 | 2:
                made = pods(
                    f"g{number}",
                    rng.choice((1, 1, 2, 3)),
                    rng.choice((1, 2, 4)),
                    rng.choice((None, *(1, 2, 5, 9) * 5)),
                    rng.choice("AAAB"),
                    rng.choice((0, 0, 0, 0, 1, -1)),
                )
                for pod in made:
                    known[pod["metadata"]["name"]] = harness.create(pod)
            case 3 | 4 | 5 | 6:
                waiting = [pod for pod in known.values() if not pod["spec"].get("nodeName")]
                unbegun += [pod for pod in waiting if starts(harness, pod)]
            case 7 if unbegun:
                while unbegun and rng.random() < 0.9:
                    begin(harness, unbegun.pop(rng.randrange(len(unbegun))))
                harness.now += 31  # limits and begins are looked at again after 30 seconds
            case 8 | 9 if known:
                name = rng.choice(list(known))
                gone = known.pop(name)
                unbegun = [pod for pod in unbegun if pod is not gone]
                harness.delete(name)
            case 10 if known:  # its limit is taken away or changed, or its gate comes or goes
                pod = rng.choice(list(known.values()))
                pod["spec"]["activeDeadlineSeconds"] = rng.choice((None, HOUR, 3 * HOUR, 7 * HOUR))
                pod["spec"]["schedulingGates"] = rng.choice(([], [], [], [{"name": "g"}]))
                core.pod_changed(pod)
                harness.now += 31
            case 11:
                away = rng.choice(NODES) if rng.random() < 0.05 else ""
                for node in NODES:
                    core.node_changed(NodeStatus(node, ready=node != away, schedulable=True))
            case _:
                harness.now += rng.choice((31, 600, HOUR))
                harness.reconciler.reconcile()
        seen.append(compare(harness))
    promises, ahead, held = map(sum, zip(*seen, strict=True))
    return promises, ahead, held
