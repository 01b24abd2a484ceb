"""`paictl reservation`: cells that are kept for jobs that name them."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli import names as names_of
from paictl.cli.clusters import OutputOption, StateOption, clock_text, open_cluster, plain
from paictl.cli.command import App
from paictl.cli.console import Output, localized, write, write_data, write_table
from paictl.cluster.interface import ReservationView
from paictl.cluster.reservations import ReservationRequest
from paictl.errors import PaictlError
from paictl.i18n import did_you_mean, text
from paictl.operate.maintenance import read_span, read_start
from paictl.workload.reservations import Repeat

EXAMPLES = """
    paictl reservation add --vc vision --cells 4xV100-NODE --from 2026-12-01T22:00 --for 4h
    paictl reservation list
    paictl reservation remove reservation-1
"""

app = App(help="Reserve cells for jobs that name the reservation, once or repeatedly.", epilog=EXAMPLES)

ReservationName = Annotated[str, typer.Argument(metavar="RESERVATION", help="Name of a reservation.")]


@app.command(
    epilog="""
    paictl reservation add --vc vision --cells 2xV100-NODE --from +2h --for 90m --name rehearsal
    paictl reservation add --vc vision --cells 4xV100-NODE --from 2026-12-01T09:00Z --for 8h --repeat daily
    paictl reservation add --nodes worker3,worker4 --for 4h --dry-run
"""
)
def add(
    span: Annotated[str, typer.Option("--for", metavar="SPAN", help="How long it lasts, e.g. 4h.")],
    vc: Annotated[
        str, typer.Option("--vc", metavar="VC", autocompletion=names_of.vcs, help="Keep cells of this VC's promise.")
    ] = "",
    cells: Annotated[
        str, typer.Option("--cells", metavar="NxTYPE", help="How many cells of which type, with --vc.")
    ] = "",
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--nodes",
            metavar="NODE",
            autocompletion=names_of.nodes,
            help="Reserve nodes that no promise needs (comma-separated); cannot be combined with --vc.",
        ),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="2026-12-01T22:00, or +2h from now (default: now).")
    ] = None,
    repeat: Annotated[Repeat, typer.Option("--repeat", help="Repeat it every day or week.")] = Repeat.ONCE,
    name: Annotated[str, typer.Option("--name", help="Name of the reservation (default: reservation-N).")] = "",
    reason: Annotated[str, typer.Option("--reason", help="What it is for.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check whether the reservation is possible, without adding it.")
    ] = False,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """Add a reservation if its cells will be free in time. While it lasts, only jobs that name it use them."""
    cluster = open_cluster(state)
    named = tuple(word for node in nodes or () for word in node.replace(",", " ").split())
    if bool(vc) == bool(named) or bool(vc) != bool(cells):
        raise PaictlError(
            text("name the cells: --vc and --cells, or --nodes"),
            hint="paictl reservation add --vc VC --cells 2xV100-NODE --for 4h",
        )
    number, cell_type = read_cells(cells) if cells else (0, "")
    request = ReservationRequest(
        read_span(span), read_start(start, cluster.now), vc, number, cell_type, named, repeat, name, reason
    )
    known = cluster.add_reservation(request, dry_run=dry_run)
    if output is not Output.TABLE:
        write_data(plain(known), output)
    elif dry_run:
        write(localized("it can be kept: {reservation}", reservation=reservation_line(known)))
    else:
        write(localized("reservation added: {reservation}", reservation=reservation_line(known)))


def read_cells(word: str) -> tuple[int, str]:
    """Number and type of cells, as in ``4xV100-NODE``; raises `PaictlError` for anything else."""
    match = re.fullmatch(r"([1-9][0-9]{0,5})x([^\s]+)", word)
    if match is None:
        raise PaictlError(text("{said!r} is not a number of cells", said=word), hint="write for instance 4xV100-NODE")
    return int(match[1]), match[2]


@app.command("list", epilog="paictl reservation list -o json")
def list_reservations(output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """List the reservations that are not over."""
    reservations = open_cluster(state).reservations()
    if output is not Output.TABLE:
        write_data([plain(reservation) for reservation in reservations], output)
        return
    rows = [
        (
            reservation.name,
            "active" if reservation.active else "planned",
            clock_text(reservation.start),
            clock_text(reservation.end),
            reservation.repeat,
            reservation.kept,
            str(reservation.used) if reservation.vc else "-",
        )
        for reservation in reservations
    ]
    write_table(("RESERVATION", "STATE", "BEGINS", "ENDS", "REPEAT", "CELLS", "IN USE"), rows)


@app.command(epilog="paictl reservation show reservation-1")
def show(name: ReservationName, output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """Show a reservation: the cells in use, and whether the others will be free in time."""
    known = {row.name: row for row in open_cluster(state).reservations()}
    if name not in known:
        hint = did_you_mean(name, known) or "list them with: paictl reservation list"
        raise PaictlError(text("no reservation {name!r}", name=name), hint=hint)
    row = known[name]
    if output is not Output.TABLE:
        write_data(plain(row), output)
        return
    write(reservation_line(row))
    if row.vc:
        write(localized("{used} of {cells} cells in use", used=row.used, cells=row.cells))
    if row.short:
        write(
            localized(
                "as things are now, {short} of them will not be free in time: see paictl node list", short=row.short
            )
        )
    write(localized("jobs use it with extras: {{reservation: {name}}}", name=row.name))


@app.command(epilog="paictl reservation remove reservation-1")
def remove(name: ReservationName, state: StateOption = None) -> None:
    """Remove a reservation. Others can use its cells again, and its running jobs keep running."""
    open_cluster(state).remove_reservation(name)
    console.outcome(text("reservation {name} removed", name=name), name=name, removed=True)


def reservation_line(view: ReservationView) -> str:
    """A reservation on one line."""
    start, end = clock_text(view.start), clock_text(view.end)
    size = view.kept
    if view.repeat == Repeat.ONCE:
        line = localized("{name}: {size} from {start} to {end}", name=view.name, size=size, start=start, end=end)
    else:
        line = localized(
            "{name}: {size} {repeat}, next from {start} to {end}",
            name=view.name,
            size=size,
            repeat=view.repeat,
            start=start,
            end=end,
        )
    return f"{line} ({view.reason})" if view.reason else line
