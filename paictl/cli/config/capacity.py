"""`paictl config capacity` and `paictl config diff`."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from paictl import i18n
from paictl.cli.clusters import StateOption
from paictl.cli.config.push import diff_with_cluster
from paictl.cli.console import Output, info, localized, progress, write, write_data, write_table
from paictl.cli.options import KindOption, OutputOption
from paictl.config.linting.validate import Choice, validate
from paictl.config.quotas.capacity import Capacity, VcShare, configuration
from paictl.config.quotas.capacity import capacity as capacity_of
from paictl.config.quotas.diff import CellChange, ChainChange, QuotaDifference, compare
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load
from paictl.config.reading.problem import Severity
from paictl.errors import ExitCode
from paictl.i18n import text

CAPACITY_EPILOG = """
    paictl config capacity cluster/
    paictl config capacity hivedscheduler.yaml -o json
"""
DIFF_EPILOG = """
    paictl config diff hivedscheduler.yaml new-hivedscheduler.yaml (what tenants gain and lose)
    paictl config diff cluster/ (against what the cluster has)
    Exit codes: 0 the same, 1 different, 2 a file cannot be used.
"""


def capacity(
    path: Annotated[
        str, typer.Argument(metavar="FILE", help="hivedscheduler.yaml, services-configuration.yaml, or their folder.")
    ],
    kind: KindOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the cells of a cluster, who is promised them, and what is left over."""
    result = _capacity_of(path, kind)
    if output is not Output.TABLE:
        write_data(asdict(result), output)
        return
    write_table(("CHAIN", "CELL TYPE", "DEVICES", "CELLS", "PROMISED", "LEFT"), _cell_rows(result))
    write("")
    write_table(("VC", "CHAIN", "CELLS", "DEVICES", "LARGEST POD", "LARGEST GANG"), _vc_rows(result))


def _capacity_of(path: str, kind: FileKind | None) -> Capacity:
    """The capacity in a file; says on stderr if the configuration has errors, because then it is not what will be."""
    gc.disable()  # as in `validate`: what is read stays
    with progress(text("reading")):
        loaded = load([path], kind)
        document = configuration(loaded)
        result = capacity_of(document)
        report = validate(loaded, Choice(severity=Severity.ERROR))
    wrong = sum(problem.place.path == document.path for problem in report.problems)
    if wrong:
        singular, plural = (
            "{file} has {count} error: paictl config validate {path}",
            "{file} has {count} errors: paictl config validate {path}",
        )
        info(i18n.counted(singular, plural, wrong, file=document.path, path=path))
    return result


def _cell_rows(result: Capacity) -> Iterator[tuple[object, ...]]:
    for chain in result.chains:
        for depth, level in enumerate(chain.levels):
            name = f"{'  ' * depth}{level.type}{localized(' (node)') if level.is_node else ''}"
            first = chain.name if depth == 0 else ""
            yield first, name, level.devices, level.cells, level.promised, level.left


def _vc_rows(result: Capacity) -> Iterator[tuple[object, ...]]:
    for vc in result.vcs:
        if not vc.shares:
            yield vc.name, "-", "-", 0, 0, 0
        for index, share in enumerate(vc.shares):
            first = vc.name if index == 0 else ""
            yield first, share.chain, _cells(share), share.devices, share.largest_pod, share.largest_gang


def _cells(share: VcShare) -> str:
    return " + ".join(
        f"{cell.number} {cell.type}"
        if cell.pinned is None
        else localized("{type} {cell} (pinned, {at})", type=cell.type, cell=cell.pinned, at=_short(cell.at))
        for cell in share.cells
    )


def _short(text: str | None) -> str:
    """A list of nodes, cut where it gets too long for a table; -o json has all."""
    return text if text is not None and len(text) <= 60 else f"{(text or '')[:57]}..."


def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help="Current file or folder; alone, the folder to push.")],
    new: Annotated[str | None, typer.Argument(metavar="[NEW]", help="New file or folder.")] = None,
    kind: KindOption = None,
    unified: Annotated[
        bool, typer.Option("--unified", "-u", help="Against the cluster: compare lines instead of keys.")
    ] = False,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """Show what each virtual cluster gains and loses between OLD and NEW; or how OLD differs from the cluster."""
    if new is None:
        diff_with_cluster(old, output, state, unified=unified)
        return

    difference = compare(_capacity_of(old, kind), _capacity_of(new, kind))
    if output is not Output.TABLE:
        write_data({"same": difference.same, **asdict(difference)}, output)
    elif difference.same:
        write("no difference: the same cells of the same nodes for the same virtual clusters")
    else:
        _show(difference)
    raise typer.Exit(ExitCode.OK if difference.same else ExitCode.NEGATIVE)


def _show(difference: QuotaDifference) -> None:
    if difference.vcs:
        write_table(("VC", "CHANGE", "CHAIN", "CELLS", "BEFORE", "AFTER", "DEVICES"), _change_rows(difference))
    if difference.vcs and difference.chains:
        write("")
    if difference.chains:
        rows = (
            (chain.name, chain.change, chain.devices_before, chain.devices_after, _nodes(chain))
            for chain in difference.chains
        )
        write_table(("CHAIN", "CHANGE", "DEVICES BEFORE", "AFTER", "NODES"), rows)


def _change_rows(difference: QuotaDifference) -> Iterator[tuple[object, ...]]:
    for vc in difference.vcs:
        if not vc.cells:
            yield vc.name, vc.change, "-", "-", 0, 0, "+0"
        for index, cell in enumerate(vc.cells):
            first = (vc.name, vc.change) if index == 0 else ("", "")
            change = f"{cell.devices_after - cell.devices_before:+}"
            yield *first, cell.chain, _changed_cells(cell), cell.cells_before, cell.cells_after, change
        if vc.kept_pinned:
            yield "", "", "", localized("keeps pinned {cells}", cells=", ".join(vc.kept_pinned)), "", "", ""


def _changed_cells(cell: CellChange) -> str:
    if cell.pinned is None:
        return cell.type
    if not cell.moved:
        return localized("{type} {cell} (pinned)", type=cell.type, cell=cell.pinned)
    return localized("{type} {cell} (pinned, moves: {nodes})", type=cell.type, cell=cell.pinned, nodes=cell.moved)


def _nodes(chain: ChainChange) -> str:
    words = [f"+{name}" for name in chain.nodes_added] + [f"-{name}" for name in chain.nodes_removed]
    shown = " ".join(words[:12]) + (f" … {len(words) - 12} more" if len(words) > 12 else "")
    return " ".join(filter(None, (shown, "cell types differ" if chain.shape_changed else "")))
