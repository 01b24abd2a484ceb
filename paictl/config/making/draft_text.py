"""The text of a drafted HiveD configuration, with its questions as comments where they are answered."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from paictl.config.making.drafting import Draft
from paictl.config.making.shapes import DraftCell
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.schema import SCHEMA_NAMES, schema_comment
from paictl.config.reading.values import scalar
from paictl.errors import PaictlError

DRAFT_FILE = "hivedscheduler.yaml"


def draft_text(draft: Draft, cluster: str) -> str:
    """The file; raises `PaictlError` if it has an error, which is a fault of ours."""
    text = "\n".join([schema_comment(SCHEMA_NAMES[FileKind.HIVED]), *_head(draft, cluster), *_body(draft), ""])
    _check(text)
    return text


def _check(text: str) -> None:
    from paictl.config.linting.validate import validate  # the rules are much to load, and `cluster` has other commands
    from paictl.config.reading.document import Bundle
    from paictl.config.reading.load import Loaded, load_bytes
    from paictl.config.reading.problem import Severity

    report = validate(Loaded((Bundle("draft", tuple(load_bytes(DRAFT_FILE, text.encode()))),)))
    for problem in report.problems:
        if problem.severity is Severity.ERROR:
            raise PaictlError(f"the draft would be wrong, {problem.rule}: {problem.message}", where=str(problem.place))


def _head(draft: Draft, cluster: str) -> Iterator[str]:
    yield from _comment(f"Drafted by `paictl cluster import` from {cluster}; yours to change from now on.")
    for title, lines in (("Questions", draft.questions), ("Not taken over", draft.remarks)):
        if lines:
            yield "#"
            yield f"# {title}:"
            for line in lines:
                yield from _comment(line, "- ")


def _comment(text: str, mark: str = "") -> Iterator[str]:
    yield from textwrap.wrap(
        text, 110, initial_indent=f"# {mark}", subsequent_indent=f"# {' ' * len(mark)}", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _body(draft: Draft) -> Iterator[str]:
    yield "physicalCluster:"
    yield "  skuTypes:"
    for name, (cpus, memory) in draft.skus.items():
        yield f"    {scalar(name)}: {{gpu: 1, cpu: {cpus}, memory: {memory}Mi}}"
    yield "  cellTypes:"
    for name, one in draft.types.items():
        node = ", isNodeLevel: true" if one.is_node else ""
        yield f"    {scalar(name)}: {{childCellType: {scalar(one.child)}, childCellNumber: {one.number}{node}}}"
    yield "  physicalCells:"
    for cell in draft.cells:
        yield f"  - cellType: {scalar(cell.type)}"
        yield from _cell(cell, "    ")
    yield "virtualClusters:"
    for tenant in draft.tenants:
        yield f"  {scalar(tenant.name)}:{f'  # {tenant.source}' if tenant.source else ''}"
        yield "    virtualCells:"
        for path, number in tenant.cells.items():
            yield f"    - cellType: {scalar(path)}"
            yield f"      cellNumber: {number}"


def _cell(cell: DraftCell, indent: str) -> Iterator[str]:
    """Address (of a node) or children of a cell; the domain of the others as a comment."""
    if not cell.children:
        yield f"{indent}cellAddress: {scalar(cell.address)}"
        return
    yield f"{indent}cellChildren:{f'  # {cell.address}' if cell.address else ''}"
    for child in cell.children:
        lines = list(_cell(child, f"{indent}  "))
        yield f"{indent}- {lines[0].strip()}"
        yield from lines[1:]
