"""From a request to a job of an embedded cluster, or the reason why it is not taken."""

from __future__ import annotations

from collections.abc import Sequence

from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.embedded.configs import Configurations
from paictl.cluster.embedded.jobs import LiveJob
from paictl.cluster.embedded.services import READERS
from paictl.cluster.interface import JobRequest
from paictl.cluster.taking import all_taken, as_taken
from paictl.errors import PaictlError
from paictl.units import Millis
from paictl.workload import lifecycle
from paictl.workload.fields import JobError


def admitted(requests: Sequence[JobRequest], configuration: ConfigSnapshot, now: Millis) -> list[LiveJob]:
    """The jobs as they begin, without numbers yet; raises as `taking.all_taken` does."""
    return [
        LiveJob(
            key=found.key,
            number=0,
            data=as_taken(request, found.job),
            job=found.job,
            plan=found.plan,
            durations=found.durations,
            submitted=now,
            status=lifecycle.submit(found.job).status,
        )
        for request, found in zip(requests, all_taken(requests, configuration), strict=True)
    ]


def take(requests: Sequence[JobRequest], configs: Configurations, version: int | None, now: Millis) -> list[LiveJob]:
    """The jobs as they begin, by a version of the configuration; raises as `admitted` does.

    A refusal says so where the newest version, which is not loaded yet, would take them.
    """
    try:
        return admitted(requests, configs.get(version), now)
    except JobError as error:
        newest = configs.newest
        if newest not in (0, version) and _would_take(requests, configs.get(newest), now):
            services = " ".join(f"-n {name}" for name in READERS)
            error.hint = (
                f"version {newest} of the configuration would take it, but is not loaded: "
                f"paictl service refresh {services}"
            )
        raise


def _would_take(requests: Sequence[JobRequest], configuration: ConfigSnapshot, now: Millis) -> bool:
    try:
        admitted(requests, configuration, now)
    except PaictlError:
        return False
    return True
