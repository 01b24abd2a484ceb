"""YAML that cannot be read, or that two readers read differently."""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, Located, Severity, rule
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.source import place_of
from paictl.config.reading.yamlerrors import HINT
from paictl.config.reading.yamltree import MAX_EXPANSION, IssueKind
from paictl.i18n import sayable, text


@rule("TXT001", "syntax-error", ERROR)
def syntax(document: Document) -> Findings:
    """The text is not valid YAML.

    Why: nothing after the mistake can be read. The place is where the parser gave up. The cause is there or shortly
    before, usually an indentation that does not match, a missing colon, or an unclosed bracket or quote.

    Fails with::

        # hivedscheduler.yaml
        -virtualClusters:
        +virtualClusters: [
    """
    # Where the scanner gave up.
    for issue in document.issues:
        if issue.kind is IssueKind.SYNTAX:
            yield Finding(
                issue.at,
                text("not valid YAML: {reason}", reason=sayable(issue.detail)),
                issue.hint or HINT,
            )


@rule("TXT005", "duplicate-key", ERROR)
def duplicate_key(document: Document) -> Findings:
    """A key appears twice in the same mapping.

    Why: YAML forbids it, yet the parsers of OpenPAI and HiveD silently keep the last value, so the first one,
    which may be the one you see, has no effect.

    Fails with::

        # hivedscheduler.yaml
        -    - {cellType: NODE, cellNumber: 1}
        +    - {cellType: NODE, cellNumber: 1, cellNumber: 1}
    """
    # Each key after the first of its name.
    merged = 0
    for issue in document.issues:
        if issue.kind is IssueKind.DUPLICATE_KEY and issue.other is not None:
            line = place_of(issue.other).line
            if line <= merged:
                continue
            if _begins_item(issue.other):
                merged = place_of(issue.at).line - 1
                message = text(
                    "key {key!r} appears twice in one item of a list, first in line {line}",
                    key=issue.detail,
                    line=line,
                )
                yield Finding(issue.at, message, hint="begin the next item with '- ', or keep one of the two")
                continue
            merged = 0
            yield Finding(
                issue.at,
                text("key {key!r} appears twice here, first in line {line}", key=issue.detail, line=line),
                hint="keep one of the two",
            )


def _begins_item(key: Located) -> bool:
    """Whether a key is the first of a list's item; the keys below a forgotten dash are then all there twice."""
    line = key.source.text.rfind("\n", 0, key.start) + 1
    return key.source.text[line : key.start].strip(" ") == "-"


@rule("TXT006", "odd-key", ERROR)
def odd_key(document: Document) -> Findings:
    """A key is a list or a mapping.

    Why: YAML allows it, but none of the tools can use it. Usually it is a template such as `{{ name }}` without
    quotes.

    Fails with::

        # hivedscheduler.yaml
        -  default:
        +  {{ vc }}:
    """
    # Each key that is no scalar.
    for issue in document.issues:
        if issue.kind is IssueKind.ODD_KEY:
            yield Finding(issue.at, "a list or mapping is used as a key", "quote it if it should be text")


@rule("TXT007", "unknown-tag", ERROR)
def unknown_tag(document: Document) -> Findings:
    """A value has a YAML tag that the tools do not know.

    Why: `!vault`, `!Ref` and the like belong to other programs; OpenPAI's loaders refuse the whole file.

    Fails with::

        # hivedscheduler.yaml
        -  default:
        +  default: !vault
    """
    # Each tag outside the YAML core.
    for issue in document.issues:
        if issue.kind is IssueKind.UNKNOWN_TAG:
            yield Finding(issue.at, text("the tag {tag} is not known", tag=issue.detail), "remove the tag")


@rule("TXT008", "alias-cycle", ERROR)
def alias_cycle(document: Document) -> Findings:
    """An alias refers to a value that contains the alias.

    Why: such a value has no end; the tools hang or crash on it.

    Fails with::

        # hivedscheduler.yaml
        -  default:
        +  default: &loop
        +        again: *loop
    """
    # The alias that closes the cycle.
    for issue in document.issues:
        if issue.kind is IssueKind.ALIAS_CYCLE:
            yield Finding(
                issue.at,
                text("the alias *{alias} is inside the value that it refers to", alias=issue.detail),
                "write the value out",
            )


@rule("TXT009", "alias-bomb", ERROR)
def alias_bomb(document: Document) -> Findings:
    r"""Aliases of aliases expand to millions of values.

    Why: a few lines can fill the memory of every tool that reads them; no real configuration does this.

    Fails::

        # hivedscheduler.yaml (escaped)
        a: &a [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]
        c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]
        d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]
        e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]
        f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]
        g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f, *f]
    """
    # The alias that goes over the limit.
    for issue in document.issues:
        if issue.kind is IssueKind.ALIAS_BOMB:
            yield Finding(
                issue.at,
                text(
                    "the alias *{alias} makes this file expand to more than {most:,} values",
                    alias=issue.detail,
                    most=MAX_EXPANSION,
                ),
                "write the values out",
            )


@rule("TXT010", "unknown-alias", ERROR)
def unknown_alias(document: Document) -> Findings:
    """An alias refers to an anchor that is not defined before it.

    Why: a text that starts with `*` is an alias in YAML; without the anchor the file cannot be read.

    Fails with::

        # hivedscheduler.yaml
        -  - {cellType: NODE, cellAddress: worker1}
        +  - {cellType: NODE, cellAddress: *worker}
    """
    for issue in document.issues:
        if issue.kind is IssueKind.UNKNOWN_ALIAS:
            yield Finding(
                issue.at,
                text("no anchor &{alias} before this alias", alias=issue.detail),
                "define the anchor, or quote the text if it is not an alias",
            )


@rule("TXT011", "too-deep", ERROR)
def too_deep(document: Document) -> Findings:
    r"""Values are nested deeper than any real file.

    Why: tools that read by recursion crash on such input.

    Fails::

        # hivedscheduler.yaml (escaped)
        physicalCluster:
          [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[
          [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[
          ]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
          ]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
    """
    # Where the limit is passed.
    for issue in document.issues:
        if issue.kind is IssueKind.TOO_DEEP:
            yield Finding(
                issue.at,
                text("nested deeper than {most} levels", most=issue.detail),
                "this is most likely not a configuration file",
            )


@rule("TXT012", "more-documents", ERROR)
def more_documents(document: Document) -> Findings:
    """The file contains more than one YAML document.

    Why: the old tools read the first document, or refuse the file; what follows `---` has no effect.

    Fails with::

        # hivedscheduler.yaml
           - {cellType: NODE, cellAddress: worker1}
        +virtualClusters: {}
        +---
    """
    # The start of the second document; of a file of unknown kind nobody knows how many it may hold.
    for issue in document.issues:
        if issue.kind is IssueKind.MORE_DOCUMENTS and document.kind is not FileKind.UNKNOWN:
            yield Finding(issue.at, "a second YAML document starts here and is not read", "put it into a separate file")


@rule("TXT013", "empty-file", ERROR)
def empty(document: Document) -> Findings:
    """The file contains nothing but comments.

    Why: the tools continue with their defaults, or stop; rules across files have nothing to compare with. If there
    should be settings here, they are commented out. If the kind of the file is unknown, it is a warning.

    Fails::

        # hivedscheduler.yaml
        # physicalCluster: …
    """
    # A file or embedded text without a value; a service may do without defaults.
    if document.kind is FileKind.SERVICE_DEFAULTS:
        return
    for issue in document.issues:
        if issue.kind is IssueKind.EMPTY:
            hint = "remove the # before what you want to set, or remove the file"
            severity = Severity.WARNING if document.kind is FileKind.UNKNOWN else None
            yield Finding(issue.at, "nothing is set in this file", hint, severity=severity)
