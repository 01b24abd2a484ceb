"""A place that nobody came for until the deadline is given back, and nothing is wrong with its nodes."""

from __future__ import annotations

from paictl.scheduler.wire import GATE
from tests.unit.extender.harness import gang
from tests.unit.placer.test_placing import Placer


def test_a_gang_that_another_gate_kept_past_the_deadline_preempts_once_it_is_open() -> None:
    """Kueue's, for instance: the place was given back and lent meanwhile, but nothing is wrong with its nodes."""
    placer = Placer()
    for number in range(4):
        placer.create(gang(f"lent{number}", 1, 4, "B", priority=-1))
    placer.round()
    placer.create(gang("owner", 2, 4, vc="A"))
    placer.round()
    gated(placer, "kueue.x-k8s.io/admission")
    for preemption in placer.core.book.preemptions():
        for _, uids in preemption.victims:
            for uid in uids:
                placer.delete(uid.removeprefix("uid-"))
    for _ in range(3):
        placer.round()
        placer.reconciler.reconcile()
        placer.now += placer.core.options.deadline + 1
    assert not placer.core.book.preemptions()
    placer.create([*gang("again0", 1, 4, "B", priority=-1), *gang("again1", 1, 4, "B", priority=-1)])
    placer.round()
    gated(placer)
    placer.round()
    (preemption,) = placer.core.book.preemptions()
    assert len(preemption.victims) == 2


def gated(placer: Placer, *others: str) -> None:
    """The pods of the owner have our gate and others."""
    for number in range(2):
        spec = placer.server.pods[f"default/owner-{number}"]["spec"]
        spec["schedulingGates"] = [{"name": name} for name in (GATE, *others)]
    placer.tell()
