"""The lines of a host list and their two fields."""

from __future__ import annotations

import re

from paictl.config.linting.rule import ERROR, WARNING, Document, Edit, Finding, Findings, Severity, Span, rule
from paictl.config.models.hosts import address_of, host_list, name_fault
from paictl.config.reading.csvtable import Row
from paictl.i18n import text


@rule("CSV201", "field-count", ERROR)
def field_count(document: Document) -> Findings:
    """A line of a host list does not have exactly two fields.

    Why: OpenPAI takes the first field as host name and the second as address. With one field it stops with an
    IndexError; further fields are silently ignored.

    Fails::

        # worker.csv
        pai-worker-1,10.1.1.1
        pai-worker-2 10.1.1.2
    """
    # Each line with another number of fields; only a warning where there are more, which the tools ignore.
    header = host_list(document).header
    for row in document.rows:
        if row.comment or row is header or len(row.fields) in (0, 2):
            continue
        if len(row.fields) > 2:
            at = Span(row.source, row.fields[2].start - 1, row.end)
            message = text("{count} fields; what follows the second is ignored", count=len(row.fields))
            yield Finding(at, message, "write hostname,address and nothing else", (Edit(at, ""),), Severity.WARNING)
        else:
            yield _lone(row)


def _lone(row: Row) -> Finding:
    """One field: most often the two stand there with something else between them."""
    field = row.fields[0]
    message = text("only one field, {field!r}, where a host name and an address belong", field=field.stripped)
    parts = re.split(r"[;\s\uff0c\uff1b\u3001]+", field.stripped)  # also as Chinese input methods write them
    if len(parts) == 2 and name_fault(parts[0].lower()) is None and address_of(parts[1]):
        fixed = ",".join(parts)
        return Finding(row, message, text("separate the two by a comma: {fixed}", fixed=fixed), (Edit(row, fixed),))
    return Finding(row, message, "write hostname,address")


@rule("CSV202", "header-line", ERROR)
def header_line(document: Document) -> Findings:
    """A host list starts with a header line.

    Why: host lists have no headings: OpenPAI reads the line as a machine, and the deployment waits for a host called
    `hostname`.

    Fails with::

        # worker.csv
        +hostname,ip
         pai-worker-1,10.1.1.1
    """
    # The line of headings, if the first line is one.
    header = host_list(document).header
    if header is not None:
        message = "a header line, which is read as a host"
        yield Finding(header, message, "remove the line", (Edit(header.whole, ""),))


@rule("CSV203", "blank-line", ERROR)
def blank_line(document: Document) -> Findings:
    """A host list has a blank line.

    Why: OpenPAI's generator takes two fields of every line and stops with an IndexError at a blank one, without naming
    file or line.

    Fails with::

        # worker.csv
         pai-worker-1,10.1.1.1
        +
    """
    for row in document.rows:
        if row.blank:
            yield Finding(row, "blank line, which makes the old tools crash", "remove it", (Edit(row.whole, ""),))


@rule("CSV204", "comment-line", ERROR)
def comment_line(document: Document) -> Findings:
    """A host list has a comment.

    Why: host lists have no comments: a line that starts with `#` is read as a machine whose name starts with `#`, or
    ends in an IndexError if it has no comma.

    Fails::

        # worker.csv
        pai-worker-1,10.1.1.1
        # broken since May: pai-worker-2,10.1.1.2
    """
    # Each line that starts with `#`, those for paictl itself included: the old tools read them no better.
    for row in document.rows:
        if row.comment:
            yield Finding(row, "a comment, which is read as a host", "remove the line, or keep the note elsewhere")


@rule("CSV205", "spaces-around-field", WARNING)
def spaces_around_field(document: Document) -> Findings:
    """A field of a host list has spaces around it.

    Why: the spaces become part of the name or address: two spellings of one host are two hosts, and scripts that cut at
    the comma look for a host that is not there.

    Fails::

        # worker.csv
        pai-worker-1,10.1.1.1
        pai-worker-2, 10.1.1.2
    """
    # Each field with white space before or behind it.
    for row in document.rows:
        if row.comment:
            continue
        for field in row.fields[:2]:
            if field.text != field.stripped or field.written != field.written.strip():
                hint = text("remove them: {field}", field=field.stripped)
                yield Finding(
                    field, text("spaces around {field!r}", field=field.stripped), hint, (Edit(field, field.stripped),)
                )


@rule("CSV206", "quoted-field", WARNING)
def quoted_field(document: Document) -> Findings:
    """A field of a host list is quoted.

    Why: OpenPAI's Python removes the quotes, its shell scripts do not. A quote that is never closed swallows the lines
    after it.

    Fails::

        # worker.csv
        pai-worker-1,10.1.1.1
        "pai-worker-2","10.1.1.2"
    """
    # Each field with quotes; an error where they do not come in pairs.
    for row in document.rows:
        if row.comment:
            continue
        for field in row.fields[:2]:
            if field.written.count('"') % 2:
                message = 'a quote (") that is never closed, so the following lines count as this field'
                yield Finding(field, message, "remove the quote", severity=Severity.ERROR)
            elif '"' in field.written:
                hint = text("write it without: {field}", field=field.stripped)
                edits = (Edit(field, field.stripped),) if '"' not in field.text else ()
                yield Finding(field, text("{field!r} is in quotes", field=field.stripped), hint, edits)


@rule("CSV207", "swapped-fields", ERROR)
def swapped_fields(document: Document) -> Findings:
    """A line of a host list has the address before the name.

    Why: OpenPAI takes the first field as the name; a machine named after its address joins Kubernetes under that name,
    and HiveD never finds it.

    Fails::

        # worker.csv
        pai-worker-1,10.1.1.1
        10.1.1.2,pai-worker-2
    """
    # Each line whose fields make sense the other way round.
    for row in host_list(document).swapped:
        address, name = row.fields[:2]
        fixed = f"{name.stripped},{address.stripped}"
        edits = (Edit(Span(row.source, address.start, name.end), fixed),)
        yield Finding(row, "the address comes before the host name", text("write {fixed}", fixed=fixed), edits)
