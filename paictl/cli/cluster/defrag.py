"""`paictl cluster defrag`: move running gangs so that there is room for a larger one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli import names as names_of
from paictl.cli.clusters import OutputOption, StateOption, open_cluster
from paictl.cli.command import App
from paictl.cli.confirmation import Yes, confirm
from paictl.cli.console import Output, localized, write, write_data, write_table
from paictl.cluster.defrag import DefragPlan, plan_data, read_room
from paictl.errors import ExitCode, PaictlError
from paictl.i18n import counted, listed
from paictl.operate.defrag import make_room, payers_line, read_plan, refuse_outrun, room_lines, room_name
from paictl.operate.maintenance import read_span
from paictl.scheduler.defrag import RoomRequest
from paictl.units import span_text

EXAMPLES = """
    paictl cluster defrag plan --for 4xV100-NODE
    paictl cluster defrag apply --for 4xV100-NODE
"""

app = App(help="Move running gangs to make room for a larger one.", epilog=EXAMPLES)

For = Annotated[
    list[str] | None,
    typer.Option("--for", metavar="CELLS", help="Cells to free, e.g. 4xV100-NODE; repeatable."),
]
Level = Annotated[
    list[str] | None, typer.Option("--level", metavar="TYPE", help="One whole cell of a type, e.g. a rack; repeatable.")
]
Tenant = Annotated[
    str,
    typer.Option(
        "--vc",
        metavar="VC",
        autocompletion=names_of.vcs,
        help="Free cells of this virtual cluster's promise, for a guaranteed gang (default: any free cells, "
        "for an opportunistic gang).",
    ),
]


@app.command(
    epilog="""
    paictl cluster defrag plan --for 4xV100-NODE
    paictl cluster defrag plan --for 2xV100-NODE --vc research
    paictl cluster defrag plan --level V100-RACK -o json > plan.json
"""
)
def plan(
    cells: For = None,
    level: Level = None,
    vc: Tenant = "",
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """Show the fewest moves that make room, what they lose, and where each gang would go."""
    made = open_cluster(state).plan_moves(_rooms(cells, level, vc))
    _show(made, output)
    if not made.whole:
        raise typer.Exit(ExitCode.NEGATIVE)


@app.command(
    epilog="""
    paictl cluster defrag apply --for 4xV100-NODE
    paictl cluster defrag apply --plan plan.json --yes --timeout 15m
    paictl cluster defrag apply --for 4xV100-NODE --dry-run
"""
)
def apply(
    cells: For = None,
    level: Level = None,
    vc: Tenant = "",
    plan_file: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Apply a plan made with: plan -o json > FILE.")
    ] = None,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="SPAN", help="How long each gang may take to run again.")
    ] = "10m",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and move nothing.")] = False,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """Move the gangs of a plan one by one: evict a gang, wait until it runs again, then move the next.

    Nothing new is placed on the freed nodes meanwhile. A plan that no longer fits the cluster is refused. After Ctrl-C
    or a failure, gangs stay where they are: run the same command again to continue from there.
    """
    cluster = open_cluster(state)
    if plan_file is not None and (cells or level or vc):
        raise PaictlError("--plan already says what to free", hint="leave out --for, --level and --vc")
    longest = read_span(timeout)
    made = read_plan(plan_file, cluster) if plan_file is not None else cluster.plan_moves(_rooms(cells, level, vc))
    if plan_file is not None:
        refuse_outrun(cluster, made)
    if output is Output.TABLE or dry_run:
        _show(made, output)
    if not made.whole:
        raise typer.Exit(ExitCode.NEGATIVE)
    if dry_run:
        return
    if made.moves:
        confirm(
            console.localized(counted("moving {count} gang", "moving {count} gangs", len(made.moves))), "yes", yes=yes
        )
        make_room(
            cluster,
            made,
            longest,
            lambda move: console.info(
                localized("{gang} runs again on {nodes}", gang=move.key, nodes=listed(_nodes(move.after)))
            ),
        )
    if output is not Output.TABLE:
        write_data({**plan_data(made), "applied": True}, output)
    elif made.moves:
        write(localized("done: {cells} free now", cells=listed(localized(room_name(room)) for room in made.rooms)))


def _rooms(cells: list[str] | None, level: list[str] | None, vc: str) -> list[RoomRequest]:
    """What is asked for; raises `PaictlError` for nothing."""
    rooms = [read_room(word, vc) for cell in cells or () for word in cell.replace(",", " ").split()]
    rooms += [RoomRequest(1, cell_type, vc) for cell_type in level or ()]
    if not rooms:
        raise PaictlError("no cells to free were given", hint="paictl cluster defrag plan --for 4xV100-NODE")
    return rooms


def _show(made: DefragPlan, output: Output) -> None:
    if output is not Output.TABLE:
        write_data(plan_data(made), output)
        return
    for room in made.rooms:
        write("\n".join(map(localized, room_lines(room))))
    if made.moves:
        write_table(
            ("GANG", "VC", "CLASS", "DEVICES", "LOSES", "FROM", "TO"),
            [
                (
                    move.key,
                    move.vc,
                    localized("guaranteed" if move.guaranteed else "opportunistic"),
                    move.devices,
                    span_text(move.lost),
                    listed(_nodes(move.before), 3),
                    listed(_nodes(move.after), 3),
                )
                for move in made.moves
            ],
        )
        write(localized(payers_line(made)))


def _nodes(places: object) -> list[str]:
    return sorted({node for node, _ in places})  # type: ignore[attr-defined]
