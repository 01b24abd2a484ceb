"""What another configuration would do to the jobs that run and wait: tried on a scheduler of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.embedded.dispatch import Dispatcher
from paictl.cluster.embedded.jobs import LiveJob
from paictl.cluster.embedded.world import World
from paictl.cluster.harming import harm_of_running
from paictl.cluster.scheduling import Impact, JobImpact
from paictl.errors import PaictlError
from paictl.scheduler.engine import Engine


def impact_of(world: World, files: Mapping[str, str]) -> Iterator[Impact]:
    """The jobs that would be worse off, in order of submission.

    A scheduler is started by the files beside the one that runs, and finds the pods as that would after a restart.
    Files that no scheduler could start with harm nobody: it goes on with what it has.
    """
    configuration, then = ConfigSnapshot(0, files), Dispatcher()
    try:
        then.start(configuration.spec, world.survivors())
    except PaictlError:
        return
    assert then.engine is not None  # noqa: S101 - started above
    for job in world.jobs.values():
        harm = _harm(job, configuration, world.dispatcher.engine, then.engine)
        if harm is not None:
            yield Impact(job.key, job.job.vc, harm)


def _harm(job: LiveJob, configuration: ConfigSnapshot, now: Engine | None, then: Engine) -> JobImpact | None:
    if any(True for _ in job.running()):
        return harm_of_running(job.plan.groups, now, then)
    if job.job.vc not in configuration.supply.vcs:
        return JobImpact.NO_VC
    return JobImpact.NEVER if configuration.judge.refusal(job.plan) is not None else None
