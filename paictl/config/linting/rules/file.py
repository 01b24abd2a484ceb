"""What can be said of any file: its kind, its ignore comments, its quotation marks.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, WARNING, Document, Finding, Findings, rule
from paictl.config.linting.rules import is_known
from paictl.config.linting.suppressions import suppressions_in
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.nodes import MappingNode, Node, ScalarNode
from paictl.i18n import text


@rule("TXT015", "unknown-kind", ERROR)
def unknown_kind(document: Document) -> Findings:
    """The kind of file cannot be determined.

    Why: only the YAML itself can be checked then. The kind is recognized by the file's name (`master.csv`,
    `services-configuration.yaml`, …) and by keys that only one kind has.

    Fails::

        # notes.yaml
        shopping: [milk, bread]
    """
    # A file that could be read but is of no known kind; in a folder such files are passed over.
    if document.is_manifest:
        yield Finding(
            document.beginning,
            "this is an object of Kubernetes, not a job of OpenPAI's protocol",
            "write the job for paictl job submit (examples/jobs has some), or apply the object with kubectl",
        )
    elif document.kind is FileKind.UNKNOWN and document.root is not None:
        kinds = ", ".join(kind.value for kind in FileKind if kind is not FileKind.UNKNOWN)
        yield Finding(
            document.beginning,
            "cannot tell what kind of file this is",
            text("set it with --kind: {kinds}", kinds=kinds),
        )


@rule("TXT016", "unknown-ignore", WARNING)
def unknown_ignore(document: Document) -> Findings:
    """A comment asks to ignore a rule that does not exist.

    Why: a comment `# paictl: ignore=…` with a typo silences nothing, although its author believes that it does.

    Fails with::

        # hivedscheduler.yaml
        -  physicalCells:
        +  physicalCells: # paictl: ignore=HVD9999
    """
    # Each word of an ignore comment that matches no rule.
    if document.host is not None:  # the comments of an embedded text belong to its host
        return
    for word in suppressions_in(document.source):
        if not is_known(word.text):
            yield Finding(
                word,
                text("no rule matches {word!r}, so nothing is ignored", word=word.text),
                "see: paictl config rules",
            )


_OPENING, _CLOSING = "“”„‟«‘‚", "“”‟»’"


@rule("TXT017", "typographic-quotes", WARNING)
def typographic_quotes(document: Document) -> Findings:
    """A value is in typographic quotation marks.

    Why: word processors and web pages use “ and ” where YAML requires the plain ones. To YAML they are part of the
    text: the user is then called “openpai” with the marks, and no one can log in.

    Passes::

        # config.yaml
        user: "operator"
        password: "Kelp-and-Tundra-9"
        docker_image_tag: v1.8.1

    Fails with::

        # config.yaml
        -user: "operator"
        +user: “operator”
    """
    # Every key and value that begins and ends with such marks.
    if document.root is None or not any(mark in document.source.text for mark in _OPENING):
        return
    seen: set[int] = set()
    waiting: list[Node] = [document.root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, ScalarNode):
            if node.plain and len(node.text) > 1 and node.text[0] in _OPENING and node.text[-1] in _CLOSING:
                yield Finding(node, "these quotation marks are a part of the text", 'write the plain ones: "..."')
        elif isinstance(node, MappingNode):
            waiting += [part for entry in node for part in (entry.key, entry.value)]
        else:
            waiting += node.items
