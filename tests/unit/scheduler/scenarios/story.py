"""Tells the stories under `tests/cases/scheduler/feature`: carries out their steps and checks their sentences."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from paictl.cells.spec import ClusterSpec
from paictl.scheduler.decision import Phase
from paictl.scheduler.invariants import validate
from paictl.scheduler.replay import Replayer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from paictl.scheduler.groups import Group

PRIORITIES = {"prod": 100, "test": 0, "oppo": -1}


class Story:
    """One cluster with the jobs that were submitted to it; all invariants hold after each operation."""

    def __init__(self, clusters: Path, cluster: str) -> None:
        self.clusters = clusters
        self.replayer = Replayer(self.load(cluster), load=self.load, check=lambda engine: validate(engine.state))
        self.pods: dict[str, dict[str, Any]] = {}
        self.last: dict[str, dict[str, Any]] = {}
        """Result of the last operation on each pod."""
        self.turn(list(self.replayer.engine.state.physical.nodes), healthy=True)

    def load(self, cluster: str) -> ClusterSpec:
        return ClusterSpec.from_mapping(yaml.safe_load((self.clusters / f"{cluster}.yaml").read_text()))

    def tell(self, step: dict[str, Any]) -> None:
        """Carry out one step and check what is to be seen after it."""
        (verb,) = set(step) - {"see"}
        _VERBS[verb](self, step[verb])
        for sentence in step.get("see", []):
            self.check(sentence)

    # --- steps

    def turn(self, names: str | list[str], *, healthy: bool) -> None:
        for name in [names] if isinstance(names, str) else names:
            self.replayer.run({"op": "node", "name": name, "healthy": healthy})

    def submit(self, job: dict[str, Any]) -> None:
        name, pods, gpus = job["job"], job["pods"], job["gpus"]
        for i in range(pods):
            spec = {
                "virtualCluster": job["vc"],
                "priority": PRIORITIES[job["class"]],
                "leafCellType": job.get("type", ""),
                "pinnedCellId": job.get("pinned", ""),
                "lazyPreemptionEnable": job.get("lazy", False),
                "leafCellNumber": gpus,
            }
            if job.get("gang", True):
                spec["affinityGroup"] = {"name": name, "members": [{"podNumber": pods, "leafCellNumber": gpus}]}
            self.pods[f"{name}-{i}"] = {"uid": f"{name}-{i}", "name": f"{name}-{i}", "spec": spec}
        self.retry(name)

    def retry(self, job: str) -> None:
        for uid in self.uids(job):
            if not self.runs(uid):
                self.last[uid] = self.replayer.run({"op": "filter", "pod": self.pods[uid], "suggested": None})

    def preempt(self, job: str) -> None:
        for uid in self.uids(job):
            if not self.runs(uid):
                self.last[uid] = self.replayer.run(
                    {"op": "schedule", "pod": self.pods[uid], "suggested": None, "phase": Phase.PREEMPTING}
                )

    def end(self, job: str) -> None:
        for uid in self.uids(job):
            self.last[uid] = self.replayer.run({"op": "delete_allocated", "uid": uid})
            del self.pods[uid]

    def restart(self, cluster: str) -> None:
        self.replayer.run({"op": "restart", "config": cluster})

    # --- what is to be seen

    def uids(self, job: str) -> list[str]:
        """The pods of a job, or one pod that is named as JOB-N."""
        return [uid for uid in self.pods if uid == job or uid.rsplit("-", 1)[0] == job]

    def runs(self, uid: str) -> bool:
        return uid in self.replayer.engine.state.groups.slots

    def group(self, uid: str) -> Group:
        groups = self.replayer.engine.state.groups
        return groups.by_name[groups.slots[uid][0]]

    def check(self, sentence: str) -> None:
        for pattern, holds in _SENTENCES:
            if match := re.fullmatch(pattern, sentence):
                assert holds(self, *match.groups()), f"{sentence}: {self.last}"
                return
        raise AssertionError(f"no such sentence: {sentence}")

    def all_run(self, jobs: str) -> bool:
        uids = [uid for job in jobs.split(", ") for uid in self.uids(job)]
        return bool(uids) and all(map(self.runs, uids))

    def waits(self, job: str) -> bool:
        uids = self.uids(job)
        return bool(uids) and not any(self.runs(uid) or self.last[uid]["r"] == "error" for uid in uids)

    def some(self, running: str, job: str, waiting: str) -> bool:
        uids = self.uids(job)
        up = sum(map(self.runs, uids))
        return (up, len(uids) - up) == (int(running), int(waiting))

    def on(self, job: str, nodes: str) -> bool:
        found = {self.replayer.engine.state.groups.slots[uid][2] for uid in self.uids(job) if self.runs(uid)}
        return self.all_run(job) and found == set(nodes.split(", "))

    def within(self, jobs: str, kind: str) -> bool:
        tree = self.replayer.engine.state.physical
        cells = set()
        for uid in [uid for job in jobs.split(", ") for uid in self.uids(job)]:
            _, slot, _ = self.replayer.engine.state.groups.slots[uid]
            for leaf in self.group(uid).physical[slot.member][slot.pod]:
                level = tree.chains[tree.chain[leaf]].level_of(kind)
                assert level is not None
                cells.add(tree.ancestor(leaf, level))
        return len(cells) == 1

    def guaranteed(self, job: str) -> bool:
        return self.all_run(job) and all(self.group(uid).virtual is not None for uid in self.uids(job))

    def opportunistic(self, job: str) -> bool:
        return self.all_run(job) and all(self.group(uid).priority == -1 for uid in self.uids(job))

    def lazy(self, job: str) -> bool:
        groups = [self.group(uid) for uid in self.uids(job)]
        return bool(groups) and all(one.virtual is None and one.preemptor is not None for one in groups)

    def waits_for(self, job: str, others: str) -> bool:
        results = [self.last[uid] for uid in self.uids(job)]
        victims = {uid for other in others.split(", ") for uid in self.uids(other)}
        return self.waits(job) and all(
            result["r"] == "preempt" and {uid for uids in result["victims"].values() for uid in uids} == victims
            for result in results
        )

    def refused(self, job: str) -> bool:
        return all(self.last[uid]["r"] == "error" for uid in self.uids(job))


_VERBS: dict[str, Callable[[Story, Any], None]] = {
    "submit": Story.submit,
    "retry": Story.retry,
    "preempt": Story.preempt,
    "end": Story.end,
    "restart": Story.restart,
    "bad": lambda story, names: story.turn(names, healthy=False),
    "healthy": lambda story, names: story.turn(names, healthy=True),
}

_SENTENCES: tuple[tuple[str, Callable[..., bool]], ...] = (
    (r"(\S+) waits for (.+) to go", Story.waits_for),
    (r"(\d+) pods? of (\S+) runs?, (\d+) waits?", Story.some),
    (r"(\S+) runs on (.+)", Story.on),
    (r"(.+) runs within one (\S+)", Story.within),
    (r"(\S+) runs", Story.all_run),
    (r"(\S+) waits", Story.waits),
    (r"(\S+) is gone", lambda story, job: not story.uids(job)),
    (r"(\S+) is guaranteed", Story.guaranteed),
    (r"(\S+) is opportunistic", Story.opportunistic),
    (r"(\S+) is lazily preempted", Story.lazy),
    (r"(\S+) is refused", Story.refused),
)
