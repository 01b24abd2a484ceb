"""Repair what has one obvious answer, leaving comments, layout, line ends and all other bytes as they are.

Repairs are the edits that rules attach to their findings. They are applied in rounds, because one repair can uncover or
replace another: in each round those that do not touch each other, of two that do the first; the others wait. A file
is only taken as repaired where reading it again gives the same data but for what was edited.
"""

from __future__ import annotations

import difflib
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from paictl.config.linting.equivalence import same_but_for
from paictl.config.linting.validate import Choice, Report, validate
from paictl.config.reading.document import Bundle, Document
from paictl.config.reading.edits import Replacement, replacements
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import Loaded, load_bytes
from paictl.config.reading.problem import Problem
from paictl.config.reading.source import Source, read_bytes
from paictl.config.reading.text import printable
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
            raise PaictlError(f"cannot be written: {reason}", where=self.path, hint=hint) from None


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
