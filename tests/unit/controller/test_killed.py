"""The controller is killed at every request in turn, before it takes effect and after: none lost, none twice."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from paictl.cluster.interface import JobRequest, JobState
from paictl.controller.execution import LaterError
from tests.unit.controller.conftest import cluster, job, request
from tests.unit.controller.fakejobs import Bench, FakeJobs, KilledError

CASES: Mapping[str, tuple[JobRequest, Mapping[str, int | None], JobState, int]] = {
    "gang that succeeds": (request({"a": {"instances": 2}, "b": {}}), {"a": 0, "b": 0}, JobState.SUCCEEDED, 0),
    "gang that fails twice": (request({"a": {"instances": 2}}, jobRetryCount=1), {"a": 3}, JobState.FAILED, 1),
    "gang of which one fails twice": (
        request({"a": {}, "ps": {}}, jobRetryCount=1),
        {"a": 3, "ps": None},
        JobState.FAILED,
        1,
    ),
    "tasks retried alone": (
        request({"a": {"instances": 2, "taskRetryCount": 1}}, gang=False),
        {"a": 3},
        JobState.FAILED,
        0,
    ),
    "role that ends the job": (
        request({"ps": {}, "a": {"completion": {"minFailedInstances": -1, "minSucceededInstances": 1}}}),
        {"ps": None, "a": 0},
        JobState.SUCCEEDED,
        0,
    ),
    "run again after success": (
        request({"a": {"taskRetryCount": -2}, "b": {"completion": {"minFailedInstances": 1}}}, gang=False),
        {"a": 0, "b": 4},
        JobState.FAILED,
        0,
    ),
}


def run(kube: FakeJobs, ends: Mapping[str, int | None], kill_at: int, *, after: bool) -> int:
    """Run a job to its end, killing one controller at one of its requests; how many requests there were."""
    dice, bench, asked = random.Random(3), Bench(kube), 0  # noqa: S311 - not for secrets

    def count(number: int) -> None:
        nonlocal asked
        asked += 1
        if asked == kill_at:
            raise KilledError(number)

    for _ in range(60):
        kube.before, kube.after = (kube.before, count) if after else (count, kube.after)
        if not bench.told or dice.random() < 0.7:  # else it decides by what was, as informers may be late
            bench.tell()
        try:
            bench.look()
        except KilledError:
            bench = Bench(kube)
        except LaterError:
            pass
        finally:
            kube.before = kube.after = lambda _: None
        kube.run(dice, ends)
        status = next(one for path, one in kube.objects.items() if "/paijobs/" in path).get("status") or {}
        if status.get("closed"):
            return asked
    raise AssertionError(f"it does not end: {status}")


@pytest.mark.slow(reason="every request is a case, before it takes effect and after")
@pytest.mark.parametrize("name", CASES)
def test_killed_at_every_request(name: str, kube: FakeJobs) -> None:
    wanted, ends, state, attempt = CASES[name]
    cluster(kube).submit([wanted])
    basis = FakeJobs(_copied(kube.objects))
    total = run(basis, ends, 0, after=False)
    assert total > 5
    for kill_at in range(1, total + 1):
        for after in (False, True):
            again = FakeJobs(_copied(kube.objects))
            run(again, ends, kill_at, after=after)
            found = job(again)
            assert (found.state, found.attempt) == (state, attempt), (kill_at, after)
            assert (again.live(), again.overlaps) == ([], []), (kill_at, after)
            assert [key for key, number in again.made.items() if number > 1] == [], (kill_at, after)


def _copied(objects: Mapping[str, Any]) -> dict[str, Any]:
    import copy

    return copy.deepcopy(dict(objects))
