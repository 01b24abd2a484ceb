"""A file that has been read, and the files that belong together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

from paictl.config.reading.csvtable import Row
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.nodes import Data, MappingNode, Node, to_data
from paictl.config.reading.schema import SCHEMA_NAMES, Violation, violations
from paictl.config.reading.source import Span
from paictl.frozen import frozen_caching

if TYPE_CHECKING:
    from paictl.config.reading.source import Source
    from paictl.config.reading.yamltree import ReadIssue


@frozen_caching
class Document:
    """One file, or the YAML text embedded in one.

    `root` is None where nothing could be read (and for host lists, which have `rows`); `issues` is what the reader
    stumbled over; `section` is the service that a default section belongs to; `host` is the document that this one
    is embedded in.
    """

    kind: FileKind
    source: Source
    root: Node | None = None
    rows: tuple[Row, ...] = ()
    issues: tuple[ReadIssue, ...] = ()
    section: str | None = None
    host: Document | None = None
    fatal: bool = False

    @property
    def path(self) -> str:
        """The name that reports show."""
        return self.source.root.path

    @property
    def whole(self) -> bool:
        """Whether all that the file holds was read: reading did not break off, and no key hides another."""
        return not self.fatal and all(issue.kind.name != "DUPLICATE_KEY" for issue in self.issues)

    @property
    def top(self) -> MappingNode:
        """The root as a mapping; empty where it is something else."""
        return self.root if isinstance(self.root, MappingNode) else MappingNode(self.source, 0, 0)

    @property
    def beginning(self) -> Span:
        """A place for findings about the file as a whole."""
        return Span(self.source, 0, 0)

    @cached_property
    def data(self) -> Data:
        """Plain values of the whole document."""
        return None if self.root is None else to_data(self.root)

    @property
    def is_manifest(self) -> bool:
        """Whether an object of Kubernetes stands where a job or any known file should."""
        return self.kind in (FileKind.JOB, FileKind.UNKNOWN) and "apiVersion" in self.top and "kind" in self.top

    @cached_property
    def violations(self) -> list[Violation]:
        """Where the document breaks its schema; empty for kinds without one, and for objects of Kubernetes."""
        name = SCHEMA_NAMES.get(self.kind)
        if name is None or self.root is None or self.is_manifest:
            return []
        return violations(self.root, self.data, name)


@frozen_caching
class Bundle:
    """The files of one cluster configuration: a folder, or files given together from one folder."""

    name: str
    documents: tuple[Document, ...] = field(default_factory=tuple)

    def of(self, *kinds: FileKind) -> Iterator[Document]:
        """The documents of some kinds, embedded ones included, in the order in which they were read."""
        return (document for document in self.documents if document.kind in kinds)

    def only(self, kind: FileKind) -> Document | None:
        """The document of a kind if there is exactly one; rules across files stay silent where it is unclear which."""
        documents = list(self.of(kind))
        return documents[0] if len(documents) == 1 else None
