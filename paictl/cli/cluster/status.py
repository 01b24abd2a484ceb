"""`paictl cluster status` and `cluster events`: how a cluster is, and what has happened in it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from paictl.cli.clusters import OutputOption, StateOption, clock_text, open_cluster, show_events
from paictl.cli.command import App
from paictl.cli.console import Output, clauses, localized, write, write_data
from paictl.cluster.capabilities import HandClock
from paictl.cluster.interface import Port
from paictl.operate.status import Summary, summary
from paictl.units import rfc3339, span_text

app = App()


@app.command(epilog="paictl cluster status")
def status(output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """Show the cluster's status: time, nodes, services, jobs."""
    cluster = open_cluster(state)
    report = summary(cluster)
    pace = cluster.pace if isinstance(cluster, HandClock) else 1.0
    if output is not Output.TABLE:
        write_data(_data(report, pace), output)
        return
    if isinstance(cluster, HandClock):
        clock = localized("runs until idle after every command") if pace is None else f"x{pace:g}"
        write(localized("cluster {name}, {time} (up {span}, clock {clock})", name=report.name, time=clock_text(report.now),
                     span=span_text(report.now - report.epoch), clock=clock))  # fmt: skip
    else:
        write(localized("cluster {name}, {time} (up {span})", name=report.name, time=clock_text(report.now),
                     span=span_text(report.now - report.epoch)))  # fmt: skip
        write(localized("{kind} {version} at {place}", kind=report.about.kind.capitalize(), version=report.about.version,
                     place=report.about.where))  # fmt: skip
    for what, numbers in _counts(report).items():
        words = clauses(f"{number} {localized(word)}" for word, number in numbers.items())
        write(f"{localized('{what}:', what=localized(what)):<10}" + (words or localized("none yet")))
    if report.starts:
        write(_starts_line(report))
    for port, instead in report.lacks.items():
        write(localized("not yet:  {port}; {instead}", port=port.value, instead=localized(instead)))
    for remark in report.remarks:
        write(f"{localized('note')}: {localized(remark)}")


def _starts_line(report: Summary) -> str:
    """Promised starts in numbers, and since when the first of those that are late is."""
    words = f"{localized('{what}:', what=localized('starts')):<10}" + localized(
        "{count} promised", count=len(report.starts)
    )
    if not report.late:
        return words + ", " + localized("the next at {at}", at=clock_text(report.starts[0].at))
    late = localized("{count} late, the first since {at}", count=len(report.late), at=clock_text(report.late[0].at))
    return f"{words}, {late}: {clauses(start.job for start in report.late[:5])}"


def _counts(report: Summary) -> dict[str, dict[str, int]]:
    """What there is of everything that this kind of cluster can tell."""
    counts = {"nodes": report.nodes, "devices": {"used": report.used, "in all": report.devices}}
    if Port.SERVICES not in report.lacks:
        counts["services"] = report.services
    if Port.JOBS not in report.lacks:
        counts["jobs"] = report.jobs
    return counts


def _data(report: Summary, pace: float | None) -> dict[str, Any]:
    return {
        "name": report.name,
        "kind": report.about.kind,
        "where": report.about.where,
        "version": report.about.version,
        "ports": {port.value: port not in report.lacks for port in Port},
        "time": rfc3339(report.now),
        "epoch": rfc3339(report.epoch),
        "upSeconds": (report.now - report.epoch).total_seconds(),
        "speed": "max" if pace is None else pace,
        "nodes": report.nodes,
        "devices": {"used": report.used, "total": report.devices},
        "deviceMode": report.about.devices,
        "services": report.services,
        "jobs": report.jobs,
        "starts": {
            "promised": [{"job": start.job, "at": rfc3339(start.at)} for start in report.starts],
            "late": [{"job": start.job, "since": rfc3339(start.at)} for start in report.late],
        },
        "remarks": list(report.remarks),
    }


@app.command(epilog="paictl cluster events --subject job/train")
def events(
    subject: Annotated[
        str | None, typer.Option("--subject", help="Only events of one object, e.g. node/worker1 or job/train.")
    ] = None,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """Show what has happened."""
    show_events(open_cluster(state), subject, output)
