"""What a maintenance window means for jobs and guarantees."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from paictl.cells.quota import cells_at_risk
from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.maintenance import LeavingJob, Outlook
from paictl.cluster.picture import Picture
from paictl.cluster.values import ConfigVersion, MaintenanceWindow
from paictl.errors import PaictlError


def outlook(
    window: MaintenanceWindow, others: Iterable[MaintenanceWindow], picture: Picture, version: ConfigVersion | None
) -> Outlook:
    """What a window means as things are now; `others` are all windows.

    The guarantees are those of a `version` of the configuration; None, or one without a scheduler's, gives none.
    """
    together = {
        node
        for other in (window, *others)
        if other.start < window.end and window.start < other.end
        for node in other.nodes
    }
    return Outlook(window, tuple(_leaving(window, picture)), _at_risk(version, together))


def _at_risk(version: ConfigVersion | None, nodes: Collection[str]) -> Mapping[str, int]:
    if version is None:
        return {}
    try:
        spec = ConfigSnapshot(version.number, version.files).spec
    except PaictlError:
        return {}
    return cells_at_risk(spec, nodes)


def _leaving(window: MaintenanceWindow, picture: Picture) -> Iterable[LeavingJob]:
    nodes: dict[str, dict[str, None]] = {}
    for top in picture.top_cells():
        for node in top.nodes():
            if node.name in window.nodes:
                for leaf in node.leaves():
                    if leaf.job:
                        nodes.setdefault(leaf.job, {})[node.name] = None
    known = {job.key: job for job in picture.jobs}
    for key, names in nodes.items():
        job = known.get(key)
        ends_by = None if job is None else job.ends_by
        if ends_by is None or ends_by > window.start:
            yield LeavingJob(key, "" if job is None else job.vc, tuple(names), ends_by)
