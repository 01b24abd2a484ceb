"""`paictl usage`: device hours by tenant, user, job and SKU."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.clusters import OutputOption, StateOption, open_cluster
from paictl.cli.command import App, Lazy
from paictl.cli.console import Output, localized, take_form, write_data, write_file, write_table
from paictl.i18n import text
from paictl.operate import limits as operate
from paictl.operate.usage import FIGURES, UsageReport, as_data, dimensions, figures, usage_report
from paictl.units import rfc3339
from paictl.workload.usagereport import HOUR, UsageRow

EXAMPLES = """
    paictl usage report --by vc,user
    paictl usage report --month 2026-10 --by vc --sku -o csv
    paictl usage budget list
    paictl usage limits
"""

app = App(
    help="Device hours by tenant, user, job and SKU.",
    epilog=EXAMPLES,
    lazy={"budget": Lazy("paictl.cli.budgets", "Budgets of device hours for tenants and users.")},
)

_DECIMALS = 2


class ReportForm(StrEnum):
    """Forms of the report."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    HTML = "html"


def _noted(form: ReportForm) -> ReportForm:
    """Note for the rest of the command line that the result is data, so that an error is data, too."""
    if form is ReportForm.JSON:
        take_form(Output.JSON)
    return form


@app.callback()
def usage() -> None:
    """Report device hours, and set what tenants and users may use."""


@app.command(epilog="paictl usage limits --vc vision -o json")
def limits(
    vc: Annotated[str | None, typer.Option("--vc", metavar="VC", help="This virtual cluster only.")] = None,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """List limits of devices: held, and allowed, by users, by tenants that borrow or lend, and by departments."""
    states = operate.limits(open_cluster(state), vc)
    if output is not Output.TABLE:
        write_data(operate.as_data(states), output)
    elif not states:
        console.info(text("no limits yet: see the section sharing in docs/user-limits.md"))
    else:
        rows = [
            (state.vc, state.user or "-", console.localized(state.kind), state.held, state.most) for state in states
        ]
        write_table(("VC", "USER", "CLASS", "HELD", "LIMIT"), rows)


@app.command(epilog=EXAMPLES)
def report(
    month: Annotated[
        str | None, typer.Option("--month", metavar="YYYY-MM", help="Month in UTC; default: the current one.")
    ] = None,
    by: Annotated[str, typer.Option("--by", metavar="WHAT,...", help="Group by: vc, user, job, sku.")] = "vc",
    sku: Annotated[bool, typer.Option("--sku", help="By SKU as well.")] = False,
    vc: Annotated[str | None, typer.Option("--vc", metavar="VC", help="This virtual cluster only.")] = None,
    form: Annotated[
        ReportForm, typer.Option("--output", "-o", callback=_noted, help="Output format.", show_default=False)
    ] = ReportForm.TABLE,
    state: StateOption = None,
) -> None:
    """Report the device hours of a month: guaranteed, opportunistic, lost, and promised but idle."""
    wanted = dimensions(f"{by},sku" if sku else by)
    books = usage_report(open_cluster(state), month, wanted, vc)
    if books.since is not None:
        note = text("accounts start at {since}; earlier use is not counted", since=rfc3339(books.since))
        console.info(note)
    match form:
        case ReportForm.TABLE:
            lines = [*books.rows, books.total] if books.rows else []
            write_table(_headings(books), [(*_key(books, row), *map(_hours, figures(row))) for row in lines])
        case ReportForm.JSON:
            write_data(as_data(books), Output.JSON)
        case ReportForm.CSV:
            write_file(_csv(books))
        case ReportForm.HTML:
            write_file(_page(books))


def _headings(books: UsageReport) -> tuple[str, ...]:
    return (*(name.upper() for name in books.by), *(name.upper() for name in FIGURES))


def _key(books: UsageReport, row: UsageRow) -> list[str]:
    """What a row is about; the total has no key."""
    return [value or "-" for value in row.key] if row.key else [localized("total"), *[""] * (len(books.by) - 1)]


def _hours(amount: int) -> str:
    return f"{amount / HOUR:,.{_DECIMALS}f}"


def _csv(books: UsageReport) -> str:
    """A line for each row, without the total: hours for people, device-milliseconds to add up."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(
        ["month", *books.by, *(f"{name}_hours" for name in FIGURES), *(f"{name}_device_ms" for name in FIGURES)]
    )
    for row in books.rows:
        amounts = figures(row)
        lines.writerow([books.month, *row.key, *(f"{amount / HOUR:.6f}" for amount in amounts), *amounts])
    return out.getvalue().rstrip("\n")


_STYLE = (
    "body{font:15px system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color-scheme:light dark}"
    "table{border-collapse:collapse;width:100%}th,td{padding:.35em .7em;text-align:left;border-bottom:1px solid #8884}"
    ".n{text-align:right;font-variant-numeric:tabular-nums}tfoot td{font-weight:600}"
)


def _page(books: UsageReport) -> str:
    """A page in one file, without script."""
    title = f"Device hours of {books.cluster}, {books.month}"
    heads = "".join(
        f'<th scope="col"{_number(index, books)}>{html.escape(name)}</th>'
        for index, name in enumerate((*books.by, *FIGURES))
    )
    span = f"{rfc3339(books.start)} to {rfc3339(books.end)}"
    if books.since is not None:
        span += f"; accounts are kept since {rfc3339(books.since)}"
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            '<meta name="viewport" content="width=device-width">',
            f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{html.escape(title)}</h1><p>{html.escape(span)}</p>",
            f"<table><thead><tr>{heads}</tr></thead><tbody>",
            *(_page_row(books, row) for row in books.rows),
            f"</tbody><tfoot>{_page_row(books, books.total)}</tfoot></table></body></html>",
        ]
    )


def _page_row(books: UsageReport, row: UsageRow) -> str:
    def cells() -> Iterator[str]:
        for index, value in enumerate((*_key(books, row), *map(_hours, figures(row)))):
            yield f"<td{_number(index, books)}>{html.escape(value)}</td>"

    return f"<tr>{''.join(cells())}</tr>"


def _number(index: int, books: UsageReport) -> str:
    return ' class="n"' if index >= len(books.by) else ""
