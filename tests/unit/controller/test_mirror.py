"""A process that looks often: what it was told answers as a fresh look would, and its own changes are in it at once."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from paictl.cluster.interface import JobState, JobView
from paictl.cluster.kubernetes.jobs import PODS, JobStore, WatchedJobs
from paictl.cluster.kubernetes.jobviews import has_ended, view_of
from paictl.remote.kube.client import Json
from tests.unit.controller.conftest import cluster, request
from tests.unit.controller.fakejobs import JOBS, Bench, FakeJobs


class Told:
    """A watch without a server: `tell` brings what there is now, in any order, some of it twice, or a part of it."""

    def __init__(self, kube: FakeJobs) -> None:
        self.kube = kube
        self.watched = WatchedJobs(kube)
        self.known: dict[str, Json] = {}
        for informer in self.watched.mirror.informers:
            informer.ready.set()

    def tell(self, dice: random.Random, part: float = 1.0) -> None:
        jobs, pods = (informer.listener for informer in self.watched.mirror.informers)
        there = {path: one for path, one in self.kube.objects.items() if path.startswith((f"{JOBS}/", f"{PODS}/"))}
        for path in dice.sample(sorted({*self.known, *there}), len({*self.known, *there})):
            if dice.random() > part:
                continue
            listener = jobs if path.startswith(f"{JOBS}/") else pods
            if path in there:
                self.known[path] = there[path]
                listener.changed(there[path])
            else:
                about = self.known.pop(path)["metadata"]
                listener.gone(f"paictl-jobs/{about['name']}", about["uid"])

    def fresh(self) -> list[JobView]:
        return JobStore(self.kube).jobs(ended=True)


@pytest.mark.parametrize("seed", range(4))
def test_what_was_told_answers_as_a_fresh_look_does(kube: FakeJobs, seed: int) -> None:
    dice, told, bench = random.Random(seed), Told(kube), Bench(kube)  # noqa: S311
    names: Sequence[str] = [f"job{number}" for number in range(6)]
    for name in names:
        cluster(kube).submit([request({"a": {"instances": 2}, "b": {}}, name)])
        bench.tell()
        bench.look()
        kube.run(dice, {"a": dice.choice((0, None)), "b": 0})
        told.tell(dice, part=dice.random())
        told.watched.views()
    for path in dice.sample([path for path in kube.objects if path.startswith(f"{JOBS}/")], 2):
        del kube.objects[path]
    told.tell(dice)
    assert told.watched.views() == told.fresh()
    told.tell(dice)
    assert told.watched.views() == told.fresh(), "nothing new"
    assert all(has_ended(pai) == view_of(pai, ()).state.ended for pai in told.watched.mirror.jobs())
    bench.tell()
    bench.look()
    kube.run(dice, {"a": 0, "b": 0})
    told.tell(dice)
    assert told.watched.views() == told.fresh()
    assert len({view.state for view in told.fresh()}) > 1, "a test of nothing"


def test_own_changes_are_seen_at_once_and_nothing_is_listed(kube: FakeJobs) -> None:
    seen, told = cluster(kube), Told(kube)
    seen._jobs.watched = told.watched
    seen.submit([request({"a": {}}, "first")])
    seen.submit([request({"a": {}}, "second")])
    seen.stop_job("ann~first")
    kube.requests.clear()
    assert [(job.key, job.state) for job in seen.jobs()] == [
        ("ann~first", JobState.STOPPED),
        ("ann~second", JobState.WAITING),
    ]
    assert kube.requests == []


@pytest.mark.parametrize("again", [False, True])
def test_an_answer_that_comes_after_the_news_of_a_deletion_brings_nobody_back(kube: FakeJobs, again: bool) -> None:
    """Nobody would ever tell that it is gone once more: it would be shown, and looked at, for ever."""
    told, dice = Told(kube), random.Random(0)  # noqa: S311
    cluster(kube).submit([request({"a": {}}, "first")])
    told.tell(dice)
    (path,) = (path for path in kube.objects if path.startswith(f"{JOBS}/"))
    answer = kube.objects.pop(path)
    told.tell(dice)
    if again:
        cluster(kube).submit([request({"a": {}}, "first")])
        told.tell(dice)
    told.watched.mirror.remember(answer)
    assert told.watched.views() == told.fresh()
    assert [pai.uid != answer["metadata"]["uid"] for pai in told.watched.mirror.jobs()] == [True] * again


@pytest.mark.parametrize("kind", [0, 1])
def test_while_the_watch_is_broken_the_server_is_asked(kube: FakeJobs, kind: int) -> None:
    seen, told = cluster(kube), Told(kube)
    seen._jobs.watched = told.watched
    informer = told.watched.mirror.informers[kind]
    cluster(kube).submit([request({"a": {}})])
    assert seen.jobs() == [], "nothing was told yet"
    informer.problem = "no answer"
    assert [job.key for job in seen.jobs()] == ["ann~job"]
    informer.problem = ""
    informer.ready.clear()
    assert [job.key for job in seen.jobs()] == ["ann~job"]


def test_views_are_made_anew_only_if_a_job_has_changed(kube: FakeJobs) -> None:
    seen, told = cluster(kube), Told(kube)
    seen._jobs.watched = told.watched
    seen.submit([request({"a": {}}, "first")])
    before = told.watched.views()
    assert told.watched.views() is before
    seen.submit([request({"a": {}}, "second")])
    assert [view.key for view in told.watched.views()] == ["ann~first", "ann~second"]
