"""Repair what has one obvious answer, leaving comments, layout, line ends and all other bytes as they are.

Repairs are the edits that rules attach to their findings. They are applied in rounds, because one repair can uncover or
replace another: in each round those that do not touch each other, of two that do the first; the others wait. A file
is only taken as repaired where reading it again gives the same data but for what was edited.

Each reading is laid out as a list of tokens, one for every value and every begin and end of a collection, leaving out
what an edit touches. Two lists that are equal mean that nothing else changed: not the nesting, not a neighbour's value.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from paictl import i18n
from paictl.config.linting.validate import Choice, Report, validate
from paictl.config.reading.document import Bundle, Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import Loaded, load_bytes
from paictl.config.reading.nodes import MappingNode, Node, ScalarNode
from paictl.config.reading.problem import Problem, Replacement, replacements
from paictl.config.reading.source import Source, printable, read_bytes
from paictl.config.secrets.redaction import redacted
from paictl.errors import PaictlError
from paictl.files import replace_file
from paictl.frozen import frozen

MAX_ROUNDS = 10
"""More rounds than any chain of repairs needs; two rules that undo each other's work must not run for ever."""

MAX_REFUSED = 20
"""Most repairs that one round may try and refuse in a file; each costs reading it some ten times."""


@frozen
class Fixed:
    """A file that repairs changed; `repaired` are the problems that are gone."""

    path: str
    before: bytes
    after: bytes
    repaired: tuple[Problem, ...]

    def diff(self) -> Iterator[str]:
        """The lines of a unified diff to read, without line ends: control characters escaped, secrets starred out."""
        name = printable(self.path)
        old, new = (_lines(data) for data in (self.before, self.after))
        for line in difflib.unified_diff(old, new, f"{name} (as it is)", f"{name} (repaired)", lineterm=""):
            yield "\t".join(printable(piece) for piece in redacted(line).split("\t"))

    def write(self) -> None:
        """Replace the file in one step; raises `PaictlError` if it cannot be written or changed meanwhile."""
        if read_bytes(self.path) != self.before:
            raise PaictlError("changed while it was being repaired", where=self.path, hint="run the command again")
        try:
            replace_file(Path(self.path).resolve(), self.after)
        except OSError as error:
            reason = error.strerror or str(error)
            hint = "check owner and permissions of the folder"
            raise PaictlError(
                i18n.text("cannot be written: {reason}", reason=reason), where=self.path, hint=hint
            ) from None


@frozen
class Repair:
    """The outcome: every file, repaired or not, and the report on them as they are then."""

    files: tuple[Fixed, ...]
    report: Report

    @property
    def changed(self) -> tuple[Fixed, ...]:
        """The files that repairs changed."""
        return tuple(file for file in self.files if file.after != file.before)


Candidate = tuple[Problem, tuple[Replacement, ...]]


@dataclass(slots=True)
class _File:
    """A file under repair: its document, and those embedded in it."""

    documents: list[Document]
    before: bytes
    data: bytes
    repaired: list[Problem] = field(default_factory=list)
    refused: set[tuple[Replacement, ...]] = field(default_factory=set)

    @property
    def source(self) -> Source:
        return self.documents[0].source


def fix(loaded: Loaded, choice: Choice | None = None) -> Repair:
    """Apply the repairs of all problems that `choice` wants; nothing is written (see `Fixed.write`)."""
    choice = choice or Choice()
    every = replace(choice, most=None)
    bundles = {bundle.name: _files_of(bundle) for bundle in loaded.bundles}
    files = [file for bundle in bundles.values() for file in bundle]
    report = validate(loaded, every)
    for _ in range(MAX_ROUNDS):
        if not _round(files, report):
            break
        made = (
            Bundle(name, tuple(document for file in bundle for document in file.documents))
            for name, bundle in bundles.items()
        )
        report = validate(Loaded(tuple(made), loaded.skipped, loaded.failures), every)
    fixed = (Fixed(file.source.path, file.before, file.data, tuple(file.repaired)) for file in files)
    return Repair(tuple(fixed), report.shortened(choice.most))


def _files_of(bundle: Bundle) -> list[_File]:
    files: list[_File] = []
    for document in bundle.documents:
        if document.host is None:
            data = document.source.data
            files.append(_File([document], data, data))
        else:
            files[-1].documents.append(document)
    return files


def _round(files: list[_File], report: Report) -> bool:
    """Repair what can be repaired at once; whether anything was."""
    by_source = {id(file.source): file for file in files if file.source.raw is None}
    waiting: dict[int, list[Candidate]] = {}
    for problem in report.problems:
        key, edits = id(problem.source), replacements(problem)
        if edits and key in by_source and edits not in by_source[key].refused:
            waiting.setdefault(key, []).append((problem, edits))
    done = [_repair(by_source[key], list(_apart(candidates))) for key, candidates in waiting.items()]
    return any(done)


def _apart(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """The candidates that do not touch an earlier one."""
    taken: list[Replacement] = []  # in the order of the text
    for problem, edits in candidates:
        places = [bisect_right(taken, edit.start, key=_start) for edit in edits]
        around = zip(edits, (taken[max(place - 1, 0) : place + 1] for place in places), strict=True)
        if not any(edit.clashes(other) for edit, others in around for other in others):
            for edit in edits:
                insort(taken, edit, key=_start)
            yield problem, edits


def _start(edit: Replacement) -> int:
    return edit.start


def _repair(file: _File, candidates: list[Candidate]) -> bool:
    """Apply the candidates, but for those that would change more than they say; whether anything was repaired."""
    documents = _attempt(file, candidates)
    if documents is None:
        candidates = _sound(file, candidates)
        documents = _attempt(file, candidates)
    if documents is None:  # sound one by one, not together
        candidates = candidates[:1]
        documents = _attempt(file, candidates)
    if documents is None:
        return False
    file.documents = documents
    file.data = documents[0].source.data
    file.repaired.extend(problem for problem, _ in candidates)
    return True


def _sound(file: _File, candidates: list[Candidate]) -> list[Candidate]:
    """The candidates that can be applied; the others are found by halving, up to `MAX_REFUSED` a round."""
    waiting, sound, refused = [candidates], [], 0
    while waiting and refused < MAX_REFUSED:
        group = waiting.pop()
        if not group or _attempt(file, group) is not None:
            sound += group
        elif len(group) == 1:
            file.refused.add(group[0][1])
            refused += 1
        else:
            middle = len(group) // 2
            waiting += [group[middle:], group[:middle]]
    return sound


def _attempt(file: _File, candidates: list[Candidate]) -> list[Document] | None:
    """The documents of a file after some repairs; None where they would change more than they say."""
    before, source = file.documents, file.source
    windows = source.text.count("\r\n") * 2 > source.text.count("\n")
    edits = [
        replace(edit, text=edit.text.replace("\n", "\r\n" if windows else "\n")) for _, es in candidates for edit in es
    ]
    data = apply(source, edits).encode("utf-8")
    kind = before[0].kind
    after = load_bytes(source.path, data, None if kind is FileKind.UNKNOWN else kind)
    return after if data != file.data and same_but_for(before, after, edits) else None


def apply(source: Source, edits: Iterable[Replacement]) -> str:
    """The text of a file, with its byte order mark, after edits that do not touch each other."""
    text = "\ufeff" * source.marks + source.text
    parts: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        start, end = max(edit.start + source.marks, 0), max(edit.end + source.marks, 0)
        parts += [text[done:start], edit.text]
        done = end
    return "".join([*parts, text[done:]])


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8").splitlines()


Token = tuple[object, ...]


def same_but_for(before: Sequence[Document], after: Sequence[Document], edits: Iterable[Replacement]) -> bool:
    """Whether the documents of a file hold the same before and after the edits, leaving out what these touch.

    A file that could not be read before only has to be readable after.
    """
    if any(document.fatal for document in after):
        return False
    if any(document.fatal for document in before):
        return True
    if len(before) != len(after):
        return False
    old, new = _Touched(), _Touched()
    shift = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < 0:  # the byte order mark is no part of the text
            continue
        old.add(edit.start, edit.end)
        new.add(edit.start + shift, edit.start + shift + len(edit.text))
        shift += len(edit.text) - (edit.end - edit.start)
    return all(
        list(_tokens(original, old)) == list(_tokens(edited, new))
        for original, edited in zip(before, after, strict=True)
    )


class _Touched:
    """Pieces of a text in ascending order that an edit replaced."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        self.starts.append(start)
        self.ends.append(end)

    def meets(self, start: int, end: int) -> bool:
        """Whether a piece overlaps or borders on the characters from `start` up to `end`."""
        return bisect_left(self.ends, start) < bisect_right(self.starts, end)

    def covers(self, start: int, end: int) -> bool:
        """Whether a piece holds all characters from `start` up to `end`."""
        index = bisect_right(self.starts, start) - 1
        return index >= 0 and end <= self.ends[index] and end > start


def _tokens(document: Document, touched: _Touched) -> Iterator[Token]:
    yield ("kind", document.kind)
    for row in document.rows:
        for item in row.fields:
            if not touched.meets(*document.source.span_to_root(item.start, item.end)):
                yield (item.text,)
        if not touched.covers(*document.source.span_to_root(row.whole.start, row.whole.end)):
            yield ("row",)
    if document.root is not None:
        yield from _node_tokens(document.root, touched)


def _node_tokens(node: Node, touched: _Touched) -> Iterator[Token]:
    first, last = node.source.span_to_root(node.start, node.end)
    if isinstance(node, ScalarNode):
        if not touched.meets(first, last):
            yield (node.tag, node.text)
        return
    if touched.covers(first, last):
        return
    yield ("begin", type(node))
    if isinstance(node, MappingNode):
        for entry in node:
            yield from _node_tokens(entry.key, touched)
            yield from _node_tokens(entry.value, touched)
    else:
        for item in node:
            yield from _node_tokens(item, touched)
    yield ("end",)
