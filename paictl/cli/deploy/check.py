"""`paictl deploy check`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paictl.cli import console
from paictl.cli.clusters import plain
from paictl.cli.command import App
from paictl.cli.console import Output, clauses, localized
from paictl.cli.deploy.files import AcceptNew, Config, Masters, Workers, read_deployment, ssh_options
from paictl.cli.deploy.services import say_missing_images
from paictl.cli.options import OutputOption
from paictl.deploy.apply import prepare
from paictl.deploy.preflight.checking import GROUPS, HostChecks, PreflightReport, check_hosts
from paictl.deploy.preflight.node_checks import promises_in
from paictl.errors import PaictlError

if TYPE_CHECKING:
    from paictl.deploy.inventory import Deployment
    from paictl.deploy.preflight.verdict import PreflightVerdict

app = App()

EPILOG = """
    paictl deploy check -m master.csv -w worker.csv -c config.yaml
    paictl deploy check -m master.csv -w worker.csv -c config.yaml -p cluster/ --accept-new-host-keys

Nothing is changed on any host. Exit code 3: some hosts did not answer; 4: none did.
"""

_MARKS = {"ok": "ok", "warn": "warn", "fail": "FAIL", "unknown": "?"}
_GAP = 2
_MOST = 8
"""Hosts that are named where a check says the same of many."""
NONE = "-"
"""Not asked: the host did not answer, or has nothing of the kind."""


@app.command(epilog=EPILOG)
def check(
    masters: Masters,
    workers: Workers,
    config: Config,
    folder: Annotated[
        str | None,
        typer.Option(
            "--path", "-p", metavar="DIR", help="Folder with layout and services: hosts are compared with its cells."
        ),
    ] = None,
    accept_new: AcceptNew = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check all machines before anything is installed: what would go wrong, and the command that fixes it."""
    deployment = read_deployment(masters, workers, config)
    options = ssh_options(accept_new)
    promises = promises_in(folder) if folder else None
    count, all_of_them = 0, len(deployment.machines)
    with console.progressing(localized("asking {count} hosts", count=all_of_them)) as tell:

        def heard(name: str) -> None:
            nonlocal count
            count += 1
            tell(f"{name} ({count}/{all_of_them})")

        report = check_hosts(deployment, options, promises, heard)
    lines = _missing_images(deployment, folder)
    if output is Output.TABLE:
        _show(report)
    else:
        console.write_data({**data_of(report), "missingImages": lines}, output)
    raise typer.Exit(report.exit_code)


def _missing_images(deployment: Deployment, folder: str | None) -> list[str]:
    """What to say of services whose images are not among the artifacts of machines that reach no registry."""
    if folder is None or not deployment.settings.offline:
        return []
    try:
        return say_missing_images(prepare(deployment), Path(folder))
    except PaictlError as error:
        console.error(error)
        return [str(error)]


def data_of(report: PreflightReport) -> dict[str, Any]:
    """The result for programs."""
    return {
        "exitCode": int(report.exit_code),
        "cluster": plain(report.cluster.verdicts),
        "hosts": [
            {"name": host.host, "answered": host.answered, "level": host.worst.value, "checks": plain(host.verdicts)}
            for host in report.hosts
        ],
    }


def _show(report: PreflightReport) -> None:
    rows = list(_matrix(report))
    console.write_table(rows[0], rows[1:])
    for hosts, check_name, verdict in _together(report):
        console.write("")
        console.write(f"{_MARKS[verdict.level.value]} {', '.join(hosts)} {check_name}: {localized(verdict.found)}")
        if verdict.wanted:
            console.write("  " + localized("expected: {what}", what=localized(verdict.wanted)))
        if verdict.fix:
            console.write("  " + localized("fix:    {command}", command=localized(verdict.fix)))
    console.info(_summary(report))


def _together(report: PreflightReport) -> Iterator[tuple[list[str], str, PreflightVerdict]]:
    """What is not well: hosts of which a check says the same stand together."""
    same: dict[tuple[str, PreflightVerdict], list[str]] = {}
    for host, check_name, verdict in report.failures:
        same.setdefault((check_name, verdict), []).append(host)
    for (check_name, verdict), hosts in same.items():
        more = len(hosts) - _MOST
        yield [*hosts[:_MOST], *([localized("and {count} more", count=more)] if more > 0 else [])], check_name, verdict


def _matrix(report: PreflightReport) -> Iterator[Sequence[str]]:
    """Heading and rows: a check a row and a host a column where that fits, else a host a row and a group a column."""
    checks = [(group, name) for group, names in GROUPS.items() if group != "files" for name in names]
    names = [host.host for host in report.hosts]
    if sum(max(len(name), 4) + _GAP for name in names) + 24 <= shutil.get_terminal_size((100, 24)).columns:
        yield ("GROUP", "CHECK", *names)
        for group, name in checks:
            marks = [_mark(host, name) for host in report.hosts]
            if set(marks) != {NONE} or group == "reach":
                yield (group, name, *marks)
        return
    groups = [group for group in GROUPS if group != "files"]
    yield ("HOST", *(group.upper() for group in groups))
    for host in report.hosts:
        yield (host.host, *(_of_group(host, GROUPS[group]) for group in groups))


def _mark(host: HostChecks, name: str) -> str:
    verdict = host.verdicts.get(name)
    return NONE if verdict is None or verdict.found == NONE else _MARKS[verdict.level.value]


def _of_group(host: HostChecks, names: Sequence[str]) -> str:
    """The checks of a group that are not well, or `ok`."""
    known = [name for name in names if name in host.verdicts]
    bad = [f"{_mark(host, name)} {name}" for name in known if host.verdicts[name].level.value in ("fail", "warn")]
    return ", ".join(bad) or ("ok" if known else "-")


def _summary(report: PreflightReport) -> str:
    levels = [verdict.level.value for _, _, verdict in report.failures]
    silent = sum(not host.answered for host in report.hosts)
    parts = [
        localized("{count} of {all} hosts answered", count=len(report.hosts) - silent, all=len(report.hosts)),
        localized("{count} checks failed", count=levels.count("fail")),
        localized("{count} warnings", count=levels.count("warn")),
    ]
    return clauses(parts)
