"""`paictl maintenance`: windows in which nodes are out of service."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from paictl.cli import console
from paictl.cli import names as names_of
from paictl.cli.clusters import OutputOption, StateOption, clock_text, open_cluster, plain
from paictl.cli.command import App
from paictl.cli.confirmation import confirm
from paictl.cli.console import Output, clauses, localized, write, write_data, write_table
from paictl.cluster.interface import MaintenanceWindow
from paictl.cluster.maintenance import Outlook, WindowRequest
from paictl.errors import PaictlError
from paictl.i18n import counted, listed, text
from paictl.operate.maintenance import expected, nodes_of, planned, read_span, read_start

EXAMPLES = """
    paictl maintenance add --nodes worker3 --from 2026-12-01T22:00 --for 4h
    paictl maintenance list
    paictl maintenance remove maintenance-1
"""

app = App(help="Plan windows in which nodes are out of service.", epilog=EXAMPLES)

WindowName = Annotated[str, typer.Argument(metavar="WINDOW", help="Name of a window.")]


@app.command(
    epilog="""
    paictl maintenance add --nodes worker3 --nodes worker4 --from +2h --for 90m --reason "new disks"
    paictl maintenance add --cells V100-POOL/rack1 --from 2026-12-01T22:00Z --for 4h --dry-run
"""
)
def add(
    span: Annotated[str, typer.Option("--for", metavar="SPAN", help="How long it lasts, e.g. 4h.")],
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--nodes", metavar="NODE", autocompletion=names_of.nodes, help="One or more nodes, separated by commas."
        ),
    ] = None,
    cells: Annotated[
        list[str] | None, typer.Option("--cells", metavar="ADDRESS", help="All nodes of a physical cell; repeatable.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="2026-12-01T22:00, or +2h from now (default: now).")
    ] = None,
    notice: Annotated[
        str, typer.Option("--notice", metavar="SPAN", help="How long in advance to warn jobs that must leave.")
    ] = "24h",
    name: Annotated[str, typer.Option("--name", help="Name of the window (default: maintenance-N).")] = "",
    reason: Annotated[str, typer.Option("--reason", help="Reason, shown to the owners of jobs that must leave.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show who must leave and what is at risk, and add nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """Add a window: nothing that would still run in it is placed there, and what is left then is moved."""
    cluster = open_cluster(state)
    named = [word for node in nodes or () for word in node.replace(",", " ").split()]
    of_cells = nodes_of(cluster.picture(), cells) if cells else ()
    if not named and not of_cells:
        raise PaictlError("no node given", hint="paictl maintenance add --nodes NODE --for 4h")
    request = WindowRequest(
        tuple(dict.fromkeys((*named, *of_cells))),
        read_span(span),
        read_start(start, cluster.now),
        name,
        read_span(notice),
        reason,
    )
    ahead = planned(cluster, request)
    if output is Output.TABLE:
        _show_outlook(ahead)
    if dry_run:
        if output is not Output.TABLE:
            write_data(_data(ahead.window, ahead), output)
        return
    if ahead.leaving or ahead.at_risk:
        confirm(text("adding the window for {nodes}", nodes=listed(request.nodes)), "yes", yes=yes)
    window = cluster.add_window(request)
    if output is not Output.TABLE:
        write_data(_data(window, ahead), output)
        return
    write(
        localized(
            "window {name} added: {nodes} from {start} to {end}",
            name=window.name,
            nodes=listed(window.nodes),
            start=clock_text(window.start),
            end=clock_text(window.end),
        )
    )


@app.command("list", epilog="paictl maintenance list -o json")
def list_windows(output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """List the windows that have not ended."""
    windows = open_cluster(state).windows()
    if output is not Output.TABLE:
        write_data([plain(window) for window in windows], output)
        return
    rows = [
        (
            window.name,
            localized("active") if window.active else localized("planned"),
            clock_text(window.start),
            clock_text(window.end),
            listed(window.nodes, 4),
            window.reason or "-",
        )
        for window in windows
    ]
    write_table(("WINDOW", "STATE", "BEGINS", "ENDS", "NODES", "REASON"), rows)


@app.command(epilog="paictl maintenance show maintenance-1")
def show(name: WindowName, output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """Show a window: who must leave, and whose guarantees are at risk, as of now."""
    ahead = expected(open_cluster(state), name)
    if output is not Output.TABLE:
        write_data(_data(ahead.window, ahead), output)
        return
    write(window_line(ahead.window))
    _show_outlook(ahead)


@app.command(epilog="paictl maintenance remove maintenance-1")
def remove(name: WindowName, state: StateOption = None) -> None:
    """Remove a window: its nodes are used again."""
    open_cluster(state).remove_window(name)
    console.outcome(text("window {name} removed", name=name), name=name, removed=True)


def window_line(window: MaintenanceWindow) -> str:
    """A window on one line."""
    line = localized(
        "{name}: {nodes} from {start} to {end}",
        name=window.name,
        nodes=listed(window.nodes),
        start=clock_text(window.start),
        end=clock_text(window.end),
    )
    return f"{line} ({window.reason})" if window.reason else line


def _show_outlook(ahead: Outlook) -> None:
    """Who must leave, and what is at risk."""
    if ahead.leaving:
        singular, plural = (
            "{count} job runs there and may not end in time:",
            "{count} jobs run there and may not end in time:",
        )
        write(console.localized(counted(singular, plural, len(ahead.leaving))))
        for job in ahead.leaving:
            ends = (
                localized("without a limit")
                if job.ends_by is None
                else localized("until {until} at the latest", until=clock_text(job.ends_by))
            )
            write(f"  {job.key}  {job.vc}  {','.join(job.nodes)}  {ends}")
    else:
        write(localized("no job has to move"))
    if ahead.at_risk:
        cells = clauses(
            localized(counted("{vc} ({count} cell)", "{vc} ({count} cells)", number, vc=vc))
            for vc, number in ahead.at_risk.items()
        )
        write(localized("guarantees at risk during the window: {cells}", cells=cells))
    else:
        write(localized("all guarantees can be kept without these nodes"))


def _data(window: MaintenanceWindow, ahead: Outlook) -> dict[str, Any]:
    return {**plain(window), "leaving": [plain(job) for job in ahead.leaving], "at_risk": dict(ahead.at_risk)}
