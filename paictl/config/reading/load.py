"""Paths → bundles of documents."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from paictl.config.reading.csvtable import parse_csv
from paictl.config.reading.document import Bundle, Document
from paictl.config.reading.kinds import FileKind, kind_by_name, recognise
from paictl.config.reading.nested import embedded_source
from paictl.config.reading.recognition import Neighbourhood, is_candidate
from paictl.config.reading.source import STDIN, Source, Span, read_bytes
from paictl.config.reading.yamltree import MAX_VALUES, IssueKind, ReadIssue, parse_yaml
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text

SUFFIXES = (".yaml", ".yml", ".csv")
"""What a folder is searched for."""


MAX_ROWS = 200_000
"""Most lines of a host list."""


@frozen
class Loaded:
    """What was read.

    `bundles` stand in the order of the arguments; `skipped` are files of a folder that are not ours; `failures` are
    paths that could not be read at all.
    """

    bundles: tuple[Bundle, ...]
    skipped: tuple[str, ...] = ()
    failures: tuple[PaictlError, ...] = ()

    @property
    def documents(self) -> Iterator[Document]:
        """All documents of all bundles."""
        return (document for bundle in self.bundles for document in bundle.documents)


def nothing_found(loaded: Loaded) -> Iterator[PaictlError]:
    """An error for each folder without any YAML or CSV file: most likely another one was meant."""
    if any(bundle.documents for bundle in loaded.bundles) or loaded.failures or loaded.skipped:
        return  # a folder whose files were named one by one before is not empty
    for bundle in loaded.bundles:
        hint = "name the folder of the configuration, or the kind of its files with --kind"
        yield PaictlError("no configuration file in this folder", where=bundle.name, hint=hint)


def load(
    paths: Iterable[str], kind: FileKind | None = None, *, skip_unknown: bool = False, strict: bool = False
) -> Loaded:
    """Read files, folders and standard input (``-``).

    A folder is one bundle, with all below it; files given one by one form a bundle per folder they stand in. `kind`
    says the kind of all files; without it each is recognised. Files that are not ours are passed over in folders, and
    with `skip_unknown` everywhere, whatever they hold; with `strict` nowhere.
    """
    reading = _Reading(kind, skip_unknown, strict)
    for path in dict.fromkeys(paths):
        if path == STDIN:
            reading.file(path, bundle=path)
        elif is_folder(path):
            reading.folder(path)
        else:
            reading.file(path, bundle=str(Path(path).parent))
    made = (Bundle(name, tuple(documents)) for name, documents in reading.bundles.items())
    return Loaded(tuple(made), tuple(reading.skipped), tuple(reading.failures))


class _Reading:
    """What has been read so far; a file that is named twice, by itself and with its folder, is read once."""

    def __init__(self, kind: FileKind | None, skip_unknown: bool, strict: bool) -> None:
        self.kind = kind
        self.skip_unknown = skip_unknown
        self.picks = kind is None and not strict
        self.neighbourhood = Neighbourhood()
        self.bundles: dict[str, list[Document]] = {}
        self.skipped: list[str] = []
        self.failures: list[PaictlError] = []
        self.seen: set[str] = set()

    def folder(self, path: str) -> None:
        """Read all below a folder, but for files that are none of ours."""
        self.bundles.setdefault(path, [])
        for file in _files_below(path, self.failures):
            self.file(file, bundle=path, skip_unknown=True)

    def file(self, path: str, bundle: str, *, skip_unknown: bool = False) -> None:
        """Read one file; what cannot be read is noted and keeps no other file from being read."""
        try:
            documents = self.documents(path, picks=self.picks and (skip_unknown or self.skip_unknown))
        except PaictlError as error:
            self.failures.append(error)
            return
        real = path if path == STDIN else os.path.realpath(path)
        if real in self.seen:
            return
        self.seen.add(real)
        if documents is None:
            self.skipped.append(path)
        else:
            self.bundles.setdefault(bundle, []).extend(documents)

    def documents(self, path: str, *, picks: bool) -> list[Document] | None:
        """The documents of a file; None for one that is not ours, where `picks` says that only ours are wanted."""
        if not picks:
            return load_file(path, self.kind)
        if not is_candidate(path):
            return None
        try:
            data = read_bytes(path)
        except PaictlError:
            if self.neighbourhood.is_ours(path, None):
                raise
            return None
        name = "<stdin>" if path == STDIN else path
        if not self.neighbourhood.is_ours(path, _decode(name, data)[0].text):
            return None
        return load_bytes(name, data)


def is_file(path: str) -> bool:
    """Whether a path is that of a file; False for one that cannot be a path at all."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # a folder above may be closed to us, a path may hold a zero byte
        return False


def is_folder(path: str) -> bool:
    """Whether a path is that of a folder; False for one that cannot be a path at all."""
    try:
        return Path(path).is_dir()
    except OSError:  # a name too long, or a folder on the way that may not be entered; reading says so
        return False


def load_memory(files: Mapping[str, bytes] | Mapping[str, str], kind: FileKind | None = None) -> Loaded:
    """One bundle from file names and contents; nothing is read from disk (clusters, examples, editors)."""
    documents = [document for name, content in files.items() for document in load_bytes(name, encoded(content), kind)]
    return Loaded((Bundle("memory", tuple(documents)),))


def encoded(content: bytes | str) -> bytes:
    """The bytes of a file; a text that came from JSON may hold halves of characters, which the rules then report."""
    return content if isinstance(content, bytes) else content.encode("utf-8", errors="surrogatepass")


def load_file(path: str, kind: FileKind | None = None) -> list[Document]:
    """The document in a file, followed by those embedded in it; raises `PaictlError` if it cannot be read."""
    return load_bytes("<stdin>" if path == STDIN else path, read_bytes(path), kind)


def load_bytes(name: str, data: bytes, kind: FileKind | None = None) -> list[Document]:
    """The documents in the bytes of a file called `name`; raises `PaictlError` if it holds too much."""
    source, issue = _decode(name, data)
    issues = (issue,) if issue else ()
    named = kind or kind_by_name(name) or FileKind.UNKNOWN
    if issue and issue.kind is IssueKind.ENCODING:
        return [Document(named, source, issues=issues, fatal=True)]
    if named.is_csv:
        if source.text.count("\n") > MAX_ROWS:
            raise _too_much(name, f"{MAX_ROWS:,} lines")
        return [Document(named, source, rows=parse_csv(source), issues=issues)]
    tree = parse_yaml(source)
    if any(issue.kind is IssueKind.TOO_MANY for issue in tree.issues):
        raise _too_much(name, f"{MAX_VALUES:,} values")
    file_kind = kind or recognise(name, tree.root) or FileKind.UNKNOWN
    document = Document(file_kind, source, tree.root, issues=(*issues, *tree.issues), fatal=tree.fatal)
    return [document, *_embedded(document)]


def _too_much(name: str, limit: str) -> PaictlError:
    hint = "no cluster needs so many; split the file or remove what does not belong"
    return PaictlError(text("has more than {limit}", limit=limit), where=name, hint=hint)


def _embedded(document: Document) -> Iterator[Document]:
    """The hivedscheduler configuration that service settings hold as a string."""
    if document.kind is not FileKind.SERVICES:
        return
    scalar = document.top.mapping("hivedscheduler").text("config")
    if scalar is None or not scalar.text.strip():
        return
    source = embedded_source(scalar)
    tree = parse_yaml(source)
    yield Document(FileKind.HIVED, source, tree.root, issues=tree.issues, host=document, fatal=tree.fatal)


_OTHER_ENCODINGS = {
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),  # before UTF-16: its little-endian mark begins with that one
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}


def _decode(name: str, data: bytes) -> tuple[Source, ReadIssue | None]:
    """The text of a file, and what is wrong with its encoding."""
    for encoding, boms in _OTHER_ENCODINGS.items():
        if data.startswith(boms):
            source = Source(name, data.decode(encoding, errors="replace"), raw=data)
            return source, ReadIssue(
                IssueKind.ENCODING, Span(source, 0, 0), text("the file is {encoding}", encoding=encoding.upper())
            )
    body, marks = data, 0
    while body.startswith(codecs.BOM_UTF8):
        body, marks = body[len(codecs.BOM_UTF8) :], marks + 1
    try:
        source = Source(name, body.decode("utf-8"), marks=marks)
    except UnicodeDecodeError as error:
        source = Source(name, body.decode("utf-8", errors="replace"), raw=data)
        at = len(body[: error.start].decode("utf-8"))
        detail = text("byte 0x{byte:02X} is not UTF-8", byte=body[error.start])
        return source, ReadIssue(IssueKind.ENCODING, Span(source, at, at + 1), detail)
    return source, ReadIssue(IssueKind.BYTE_ORDER_MARK, Span(source, 0, 0)) if marks else None


def _files_below(folder: str, failures: list[PaictlError]) -> Iterator[str]:
    """Files of a folder and the folders below it by name; hidden ones are left out, links to folders not followed."""

    def refuse(error: OSError) -> None:
        reason = error.strerror or str(error)
        failures.append(
            PaictlError(
                text("cannot be read: {reason}", reason=reason), where=str(error.filename), hint="check permissions"
            )
        )

    for current, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        for name in sorted(files):
            path = Path(current, name)
            # A pipe or socket in a folder is nobody's configuration, and opening it would wait for a writer.
            ours = name.endswith(SUFFIXES) and not name.startswith(".")
            if ours and (path.is_file() or not path.exists()):  # a link to nothing is an error to be told
                yield str(path)
