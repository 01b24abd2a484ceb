"""The world of all abilities with owners who change their minds, and a kube-scheduler that does not always bind.

``tools/soak.py --fickle`` plays as many as one likes.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from paictl.cells.spec import ClusterSpec
from paictl.doors import housekeeping
from paictl.scheduler.wire import BIND_INFO, ISOLATION, SCHEDULING_SPEC
from paictl.workload.lending import promises_by_vc
from tests.unit.extender.abilities_drawn import CELLS, VCS
from tests.unit.extender.moving import MovingWorld


class FickleWorld(MovingWorld):
    """Pods that wait are changed, and made again under their names; some that have a place are never bound."""

    unbound = 0.1

    def more(self) -> dict[Callable[[], None], float]:
        return {self.edit: 1.5, self.recreate: 1.5, self.give_up: 1, self.push: self.pushes, self.move: self.moves}

    pushes: float = 0
    """How often another configuration is pushed."""

    def push(self) -> None:
        """The promises change, or a node is taken out of the cluster, and the process begins anew."""
        cells = copy.deepcopy(CELLS)
        clusters, nodes = cells["virtualClusters"], cells["physicalCluster"]["physicalCells"][0]["cellChildren"]
        for vc in VCS:
            row = clusters[vc]["virtualCells"][0]
            row["cellNumber"] = max(1, row["cellNumber"] - self.dice.choice((0, 0, 1, 2)))
        if self.dice.random() < 0.4:
            nodes.pop(self.dice.randrange(len(nodes)))
            cells["physicalCluster"]["cellTypes"]["POOL"]["childCellNumber"] = len(nodes)
            clusters["A"]["virtualCells"][0]["cellNumber"] = 1
        self.spec = ClusterSpec.from_mapping(cells)
        self.kill()
        self.promised = promises_by_vc(self.harness.core.book.engine.state)

    def edit(self) -> None:
        """Whoever owns a gang that waits asks for something else: its pods are changed one by one."""
        run = self.some(lambda run: not run.bound and not run.going)
        if run is None:
            return
        changed: dict[str, Any] = {"priority": self.dice.choice((-1, 0, 5))}
        if self.dice.random() < 0.3:
            changed["virtualCluster"] = run.vc = self.dice.choice(VCS)
        run.priority = changed["priority"]
        for pod in list(run.pods):
            noted = pod["metadata"]["annotations"]
            noted[SCHEDULING_SPEC] = json.dumps(json.loads(noted[SCHEDULING_SPEC]) | changed)
            if self.dice.random() < 0.3:  # half of the gang asks for something else than the other
                self.reconcile()
            self.harness.core.pod_changed(pod)

    def recreate(self) -> None:
        """A pod that waits is deleted, and made again under its name before or after the news of its end."""
        run = self.some(lambda run: not run.bound and not run.going)
        if run is None:
            return
        number = self.dice.randrange(len(run.pods))
        old = run.pods[number]
        self.number += 1
        metadata = copy.deepcopy(old["metadata"])
        metadata |= {"uid": f"{metadata['uid']}-{self.number}", "creationTimestamp": self.stamp()}
        for key in (ISOLATION, BIND_INFO):
            metadata["annotations"].pop(key, None)
        run.pods[number] = {**old, "metadata": metadata, "spec": dict(old["spec"]), "status": {"phase": "Pending"}}
        late = self.dice.random() < 0.5
        if not late:
            self.harness.core.pod_gone(old["metadata"]["uid"])
        self.harness.create(run.pods[number])
        if late:
            self.harness.core.pod_gone(old["metadata"]["uid"])

    def give_up(self) -> None:
        """The door gives up a place that nobody came for."""
        for ref in housekeeping.overdue(self.harness.core):
            housekeeping.release(self.harness.core, ref)
