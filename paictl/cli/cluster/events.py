"""Events as a table, of one object or of a whole cluster."""

from __future__ import annotations

from paictl.cli.clusters import clock_text, plain
from paictl.cli.console import Output, said, write_data, write_table
from paictl.cluster.eventtext import detail
from paictl.cluster.interface import Cluster


def show_events(cluster: Cluster, subject: str | None, output: Output) -> None:
    """Print the events of one object or of all."""
    found = cluster.events(subject)
    if output is not Output.TABLE:
        write_data([plain(event) for event in found], output)
        return
    rows = [(clock_text(event.at), said(event.kind), event.subject, said(detail(event))) for event in found]
    columns = ("TIME", "WHAT", "OF", "DETAIL")
    if subject is not None:  # it stands on the command line
        columns, rows = ("TIME", "WHAT", "DETAIL"), [(time, kind, message) for time, kind, _, message in rows]  # type: ignore[assignment,misc]
    write_table(columns, rows)
