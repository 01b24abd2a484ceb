"""Names that a shell can complete: of jobs, nodes, virtual clusters, services, versions, labs and steps.

Errors are suppressed, and nothing is offered: a shell cannot show them while it completes. Imports are inside the
functions, because the options of most commands name these functions and only completion calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from paictl.cli.settings import settings
from paictl.errors import PaictlError

if TYPE_CHECKING:
    from paictl.cluster.interface import Cluster

Names = Iterable[str]


def _of_cluster(context: typer.Context, ask: Callable[[Cluster], Names]) -> list[str]:
    """The names that a cluster returns; none if it does not exist or is broken."""
    from paictl.cluster.targets import chosen_name, open_target

    state = context.params.get("state")
    with suppress(PaictlError, OSError):
        name = chosen_name(settings.cluster, state_given=state is not None)
        return list(ask(open_target(name, folder=Path(state) if state else None)))
    return []


def clusters() -> list[str]:
    """The known clusters."""
    from paictl.cluster.targets import targets

    with suppress(PaictlError, OSError):
        return list(targets())
    return []


def jobs(context: typer.Context) -> list[str]:
    """Jobs of the cluster: USER~NAME, and NAME alone where it is unique."""

    def ask(cluster: Cluster) -> Names:
        keys = [job.key for job in cluster.jobs()]
        alone = [key.partition("~")[2] for key in keys]
        return [*(name for name in alone if alone.count(name) == 1), *keys]

    return _of_cluster(context, ask)


def nodes(context: typer.Context) -> list[str]:
    """Nodes of the cluster."""
    return _of_cluster(context, lambda cluster: [node.machine.name for node in cluster.nodes()])


def services(context: typer.Context) -> list[str]:
    """Services of the cluster."""
    return _of_cluster(context, lambda cluster: [service.name for service in cluster.services()])


def versions(context: typer.Context) -> list[str]:
    """Versions of the configuration, the newest first."""
    return _of_cluster(
        context, lambda cluster: [str(configuration.number) for configuration in reversed(cluster.configurations())]
    )


def vcs(context: typer.Context) -> list[str]:
    """Virtual clusters that the scheduler knows."""
    return _of_cluster(context, lambda cluster: [vc.name for vc in cluster.picture().vcs])


def priorities() -> list[str]:
    """Priority classes of jobs."""
    from paictl.workload.job import PRIORITIES

    return list(PRIORITIES)


def presets() -> list[str]:
    """Presets of `cluster up`."""
    from paictl.cluster.presets import PRESETS

    return list(PRESETS)
