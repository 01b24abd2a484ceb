"""`paictl usage budget`: budgets of device hours, listed, set and removed."""

from __future__ import annotations

from typing import Annotated

import typer

from paictl.cli import console, names
from paictl.cli.clusters import OutputOption, StateOption, noted, open_cluster
from paictl.cli.command import App
from paictl.cli.config.push import say_readers, show_plan
from paictl.cli.confirmation import Yes, confirm, showing_reports, warn
from paictl.cli.console import Output, write_data, write_table
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.operate.budgeting import plan_budget, send_budget
from paictl.operate.budgets import as_data, below_use, budgets
from paictl.workload.budgets import OverBudget
from paictl.workload.usagereport import HOUR

EXAMPLES = """
    paictl usage budget list
    paictl usage budget set --vc vision --hours 5000
    paictl usage budget set --vc vision --user ann --hours 400 --over refuse
    paictl usage budget set --vc vision --user ann --remove
"""

app = App(help="Budgets of device hours for tenants and users.", epilog=EXAMPLES)

VcOption = Annotated[
    str | None, typer.Option("--vc", metavar="VC", autocompletion=names.vcs, help="Virtual cluster; default: all.")
]


@app.command("list", epilog="paictl usage budget list --vc vision -o json")
def list_(
    vc: VcOption = None,
    user: Annotated[str | None, typer.Option("--user", help="Only budgets that apply to this user.")] = None,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """List the budgets of this month: hours used, hours allowed, and what happens to new jobs."""
    report = budgets(open_cluster(state), vc, user)
    if output is not Output.TABLE:
        write_data(as_data(report), output)
    elif not report.states:
        console.info(text("no budgets yet: paictl usage budget set --vc VC --hours N"))
    else:
        rows = [
            (
                state.budget.vc or "-",
                state.user or "-",
                f"{state.used / HOUR:,.2f}",
                f"{state.budget.hours:,.2f}",
                f"{state.percent:.0f}%",
                state.level.value,
                state.budget.over.value,
            )
            for state in report.states
        ]
        write_table(("VC", "USER", "USED", "BUDGET", "SHARE", "STATE", "OVER"), rows)


@app.command("set", epilog=EXAMPLES)
def set_(
    vc: VcOption = None,
    user: Annotated[
        str | None, typer.Option("--user", help="User, or '*' for every user without a budget of their own.")
    ] = None,
    hours: Annotated[float | None, typer.Option("--hours", min=0, help="Device hours in a month.")] = None,
    warn_at: Annotated[
        float | None, typer.Option("--warn-at", metavar="PERCENT", min=0, max=100, help="Warn once this share is used.")
    ] = None,
    over: Annotated[
        OverBudget | None,
        typer.Option("--over", help="What happens to new jobs when it is used up: wait, refuse or warn."),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the budget.")] = False,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change and change nothing.")] = False,
    state: StateOption = None,
) -> None:
    """Set or remove the budget of a virtual cluster, a user, or a user in a virtual cluster."""
    given = {"device-hours": hours, "warn-at": warn_at, "over": None if over is None else over.value}
    changes = {name: _number(value) for name, value in given.items() if value is not None}
    if remove == bool(changes):
        raise PaictlError(text("give either values to set or --remove"), hint="paictl usage budget set -h shows all")
    cluster = open_cluster(state)
    with showing_reports():
        made = plan_budget(cluster, vc or "", user or "", None if remove else changes)
    if not made.changes:
        console.info(text("cluster {name} already has this configuration", name=cluster.name))
        return
    show_plan(made)
    warn(below_use(cluster, made.files), "paictl usage budget list")
    if dry_run:
        return
    confirm(text("cluster {name} gets a new configuration", name=cluster.name), cluster.name, yes=yes)
    version = send_budget(cluster, made, noted("budget"))
    console.info(text("version {number} stored", number=version.number))
    say_readers(made)


def _number(value: object) -> object:
    """Whole numbers as people write them."""
    return int(value) if isinstance(value, float) and value == int(value) else value
