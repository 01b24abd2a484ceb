"""The documentation of a rule: a sentence that says what is wrong, why it matters, and examples.

`paictl config explain` shows it and the tests run its examples::

    \"\"\"A cell type needs itself as a child.

    Why: HiveD follows childCellType without end and runs out of memory.

    Passes::

        # hivedscheduler.yaml
        physicalCluster: …

    Fails::

        # hivedscheduler.yaml
        physicalCluster: …
    \"\"\"

An example starts with a comment that names its file (a second such comment starts a second file), because the kind of
a file is told by name and content. ``# name.yaml (escaped)`` says that the text holds Python escapes (``\\t``,
``\\xff``) for bytes that a docstring cannot hold.

A rule that gives no passing example has that of its module, or else of its family's package: most faults are shown as a
change of the same few files.

``Fails with::`` instead gives, for each file that differs from the passing example, what to take out (``-``) and to put
in (``+``), like a diff: other lines say where, and ``@@`` begins another place further down.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from paictl.frozen import frozen


@frozen
class Manual:
    """`summary` is one sentence, `why` the paragraph after it; examples map file names to texts."""

    summary: str
    why: str
    passes: dict[str, bytes]
    fails: dict[str, bytes]


_BLOCK = re.compile(r"^(Passes|Fails|Fails with)::\n", re.MULTILINE)
_FILE = re.compile(r"^# ([\w.-]+\.(?:ya?ml|csv))( \(escaped\))?$", re.MULTILINE)


def parse_manual(doc: str, *above: str) -> Manual:
    """Split a rule's docstring into summary, reason and examples.

    `above` are the docstrings of its module and package: the first of them with a passing example lends it. Raises
    StopIteration if there is none at all.
    """
    summary, _, why = _BLOCK.split(doc)[0].strip().partition("\n\n")
    blocks = _blocks(doc)
    passes = next(candidate["Passes"] for candidate in (blocks, *map(_blocks, above)) if "Passes" in candidate)
    edits = blocks.get("Fails with", {})
    fails = blocks.get("Fails") or {head: _edited(lines, edits.get(head, [])) for head, lines in passes.items()}
    return Manual(" ".join(summary.split()), _reason(why), _example(passes), _example(fails))


def _blocks(doc: str) -> dict[str, dict[str, list[str]]]:
    """Title of a block of examples → naming comment of each file → the lines below it."""
    parts = _BLOCK.split(doc)
    return {title: dict(_files(block)) for title, block in zip(parts[1::2], parts[2::2], strict=True)}


def _reason(why: str) -> str:
    """The paragraph behind `Why:` as one line; it may start with the name of a key, which stays as it is."""
    text = " ".join(why.split()).removeprefix("Why: ")
    return text[:1].upper() + text[1:] if re.match(r"[a-z]+,?(?: |$)", text) else text


def _files(block: str) -> Iterator[tuple[str, list[str]]]:
    """(naming comment, lines below it) of each file in an example block."""
    text = textwrap.dedent(block).strip("\n")
    marks = list(_FILE.finditer(text))
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        yield (
            mark.group(),
            text[mark.end() + 1 : following.start() if following else len(text)].rstrip("\n").split("\n"),
        )


def _edited(lines: list[str], edits: list[str]) -> list[str]:
    """The lines with edits made, place by place from the top; raises ValueError where one does not fit."""
    result: list[str] = []
    for edit in "\n".join(edits).split("\n@@\n") if edits else ():
        hunk = edit.split("\n")
        old = [line[1:] for line in hunk if not line.startswith("+")]
        at = next((at for at in range(len(lines)) if lines[at : at + len(old)] == old), None)
        if at is None:
            raise ValueError(f"the passing example has no lines {old}")
        result += lines[:at] + [line[1:] for line in hunk if not line.startswith("-")]
        lines = lines[at + len(old) :]
    return result + lines


def _example(files: dict[str, list[str]]) -> dict[str, bytes]:
    """File name → content; the naming comment stays the first line of plain YAML."""
    example: dict[str, bytes] = {}
    for head, lines in files.items():
        match = _FILE.fullmatch(head)
        assert match is not None  # noqa: S101 - `_files` found it by the same expression
        name, escaped = match.groups()
        kept = lines if escaped or name.endswith(".csv") else [head, *lines]
        data = ("\n".join(kept) + "\n").encode()
        example[name] = data.decode("unicode_escape").encode("latin-1") if escaped else data
    return example
