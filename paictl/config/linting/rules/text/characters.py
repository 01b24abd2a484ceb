"""Bytes, indentation and numbers that are not read as they look."""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, WARNING, Document, Edit, Finding, Findings, rule
from paictl.config.reading.yamltree import IssueKind
from paictl.config.secrets.redaction import is_secret
from paictl.i18n import text


@rule("TXT003", "not-utf-8", ERROR)
def encoding(document: Document) -> Findings:
    r"""The file is not UTF-8 text.

    Why: OpenPAI's tools and HiveD read UTF-8 only; other encodings fail or turn names into other names.

    Fails::

        # hivedscheduler.yaml (escaped)
        physicalCluster: {}  # caf\xe9
    """
    # The first byte that is not UTF-8.
    for issue in document.issues:
        if issue.kind is IssueKind.ENCODING:
            yield Finding(issue.at, issue.detail, "save the file as UTF-8 (iconv -t UTF-8)")


@rule("TXT004", "byte-order-mark", WARNING)
def byte_order_mark(document: Document) -> Findings:
    r"""The file starts with a byte order mark.

    Why: some Windows editors write one. In a host list it becomes part of the first host name; elsewhere it is merely
    invisible.

    Fails::

        # hivedscheduler.yaml (escaped)
        \xef\xbb\xbfphysicalCluster:
          cellTypes:
            NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
          physicalCells:
          - {cellType: NODE, cellAddress: worker1}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: NODE, cellNumber: 1}
    """
    # The mark at the start of the file.
    for issue in document.issues:
        if issue.kind is IssueKind.BYTE_ORDER_MARK:
            yield Finding(
                issue.at,
                "the file starts with a byte order mark (BOM)",
                "save it as UTF-8 without BOM",
                (Edit(document.source.byte_order_mark, ""),),
            )


@rule("TXT002", "tab-in-indentation", ERROR)
def tab(document: Document) -> Findings:
    r"""A line is indented with a tab.

    Why: YAML allows only spaces there, and most parsers report it with a message that does not help.

    Fails::

        # hivedscheduler.yaml (escaped)
        physicalCluster:
        \tcellTypes: {}
    """
    # The first tab in an indentation, where the text cannot be read because of it.
    for issue in document.issues:
        if issue.kind is IssueKind.TAB:
            yield Finding(issue.at, "a tab indents this line, YAML allows only spaces", "replace the tab with spaces")


@rule("TXT014", "surprising-number", WARNING)
def surprising_number(document: Document) -> Findings:
    """A number is not read as its digits suggest.

    Why: YAML 1.1 reads `012` as ten (octal) and `12:30` as 750 (sixty to the hour); other readers do not, so two tools
    see two numbers.

    Fails with::

        # hivedscheduler.yaml
        -    - {cellType: NODE, cellNumber: 1}
        +    - {cellType: NODE, cellNumber: 01}
    """
    # Each number in octal, hexadecimal, binary or base sixty, or with underscores; not where a string is wanted.
    mistyped = {violation.node.start for violation in document.violations if violation.keyword == "type"}
    for issue in document.issues:
        if issue.kind is not IssueKind.SURPRISING_NUMBER or issue.at.start in mistyped:
            continue
        if is_secret(issue.at):
            yield Finding(issue.at, "the value is read as a different number than its digits say", "put it in quotes")
            continue
        written = issue.at.source.text[issue.at.start : issue.at.end]
        hint = text("write {number}, or put it in quotes if it is text", number=issue.detail)
        yield Finding(
            issue.at, text("{written} is read as the number {number}", written=written, number=issue.detail), hint
        )
