"""What `what-if` simulates: the jobs that a cluster has run, and configurations without errors."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from paictl.cli.clusters import clock_text, open_cluster
from paictl.cli.console import error, info, write_segments
from paictl.cli.settings import settings
from paictl.cli.sim.shared import say_bad_rows
from paictl.cluster.interface import Cluster, Configuration
from paictl.cluster.jobpages import ForgetsJobs
from paictl.cluster.registry import LOCAL
from paictl.cluster.targets import open_target, targets
from paictl.config.linting.report import FORMATS
from paictl.config.linting.validate import Choice, validate
from paictl.config.quotas.capacity import configuration
from paictl.config.reading.document import Bundle
from paictl.config.reading.load import Loaded, load, load_memory
from paictl.config.reading.problem import Severity
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.operate.history import history
from paictl.sim.specify import from_hived
from paictl.units import span_text

if TYPE_CHECKING:
    from paictl.sim.cluster import ClusterShape
    from paictl.sim.job import Trace


def named_cluster(name: str | None, state: Path | None) -> Cluster:
    """The cluster that --from-cluster names, else the one that any command would use.

    Raises `PaictlError` if --cluster or --state names another one, and for an unknown name.
    """
    if name is None:
        return open_cluster(state)
    other = settings.cluster or (LOCAL if settings.state_given else name)
    if other != name:
        raise PaictlError(
            text("--from-cluster names {name}, but another option names {other}", name=name, other=other),
            hint="give one of them",
        )
    if name not in targets(state) and Path(name).exists():
        raise PaictlError(
            text("{name} is a file, not a cluster", name=name), hint="to use a trace, omit --from-cluster"
        )
    return open_target(name, folder=state)


def jobs_that_ended(cluster: Cluster) -> Trace:
    """The jobs of a cluster that ended, as a trace; reports which ones are missing."""
    trace = history(cluster.jobs(), cluster.name)
    say_bad_rows(trace)
    kept = cluster.jobs_kept() if isinstance(cluster, ForgetsJobs) else None
    if kept is not None:
        since = clock_text(cluster.now - timedelta(milliseconds=kept))
        info(
            text(
                "cluster {cluster} keeps jobs for {span} after they end: jobs that ended before {since} are missing",
                cluster=cluster.name,
                span=span_text(kept),
                since=since,
            )
        )
    return trace


def from_files(path: str) -> ClusterShape | None:
    """The cluster of the hivedscheduler configuration in a file or folder; as `_sound`."""
    return _sound(load([path]), path)


def from_pushed(cluster: Configuration) -> ClusterShape | None:
    """The cluster of the configuration that was pushed last; raises `ClusterError` if none was, else as `_sound`."""
    version = cluster.configuration()
    files = {name: written.encode() for name, written in version.files.items()}
    return _sound(load_memory(files), f"configuration {version.number}", pushed=True)


def _sound(loaded: Loaded, where: str, *, pushed: bool = False) -> ClusterShape | None:
    """The cluster of the hivedscheduler configuration among files; None, with the findings on stdout, for errors."""
    document = configuration(loaded)
    alone = Loaded((Bundle(document.path, (document,)),))  # errors in the other files do not matter here
    report = validate(alone, Choice(severity=Severity.ERROR))
    if not report.problems:
        return from_hived(document, where if pushed else document.path, loaded.documents)
    write_segments(FORMATS["text"](report))
    hint = "paictl config pull; then: paictl config validate" if pushed else f"paictl config validate {where}"
    error(PaictlError("was not simulated: it has errors", where=where, hint=hint))
    return None
