"""A file of a cluster's configuration: read at most once, whatever a push then asks of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from paictl.config.reading.document import Bundle, Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import Loaded, encoded, load_bytes, load_file
from paictl.config.reading.nodes import Data, MappingNode, Node
from paictl.config.secrets.sealing import mask, replace_secrets, seal, seals_in, values_behind
from paictl.config.secrets.walk import SHOWN, Secret, SecretError, Walk, walk


class ConfigFile:
    """A text under the name that the cluster knows it by; `place` is its path in messages.

    Texts never change: a file with other contents is another `ConfigFile`, which takes over what is known of this one.
    """

    def __init__(
        self,
        name: str,
        text: str,
        place: str | None = None,
        *,
        kind: FileKind | None = None,
        secrets: Walk | None = None,
    ) -> None:
        self.name = name
        self.text = text
        self.place = place or name
        self._kind = kind
        self._secrets = secrets

    @classmethod
    def read(cls, path: Path) -> ConfigFile:
        """The file at a path; raises `PaictlError` if it cannot be read."""
        documents = load_file(str(path))
        made = cls(path.name, documents[0].source.text, str(path))
        made.documents = tuple(documents)
        return made

    def with_text(self, text: str) -> ConfigFile:
        """A file of the same name, place and kind with another text."""
        return self if text == self.text else ConfigFile(self.name, text, self.place, kind=self.kind)

    def renamed(self, name: str) -> ConfigFile:
        """The same file under another name."""
        made = ConfigFile(name, self.text, self.place, kind=self._kind, secrets=self._secrets)
        made.documents = self.documents
        return made

    def __repr__(self) -> str:
        return f"ConfigFile({self.name!r}, {len(self.text)} characters)"  # never the text: it may hold secrets

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigFile) and (self.name, self.text) == (other.name, other.text)

    def __hash__(self) -> int:
        return hash((self.name, self.text))

    @cached_property
    def documents(self) -> tuple[Document, ...]:
        """The file's document and those embedded in it; raises `PaictlError` if the file holds too much."""
        return tuple(load_bytes(self.place, encoded(self.text), self._kind))

    @property
    def kind(self) -> FileKind:
        """The kind of the file, as `config validate` determines it."""
        if self._kind is None:
            self._kind = self.documents[0].kind
        return self._kind

    @property
    def fatal(self) -> bool:
        """Whether the text cannot be read to its end."""
        return self.documents[0].fatal

    @property
    def root(self) -> Node | None:
        """The values with their places; None where nothing could be read, and for a host list."""
        return self.documents[0].root

    @property
    def data(self) -> Data:
        """The plain values; of a host list, address by host name."""
        document = self.documents[0]
        if self.kind.is_csv:
            rows = [row.fields for row in document.rows if row.fields]
            return {fields[0].stripped: ", ".join(field.stripped for field in fields[1:]) for fields in rows}
        return {} if document.root is None else document.data

    def node(self, path: Iterable[str]) -> Node | None:
        """The value at a path of keys, if there is one."""
        node = self.root
        for step in path:
            node = node.get(step) if isinstance(node, MappingNode) else None
        return node

    # --- secrets; each raises `SecretError` with the file's name where they cannot be told from the rest

    @property
    def secrets(self) -> Walk:
        """Where the secrets stand."""
        if self._secrets is None:
            with self._named():
                self._secrets = walk(self.text, self.kind)
        return self._secrets

    def sealed(self, *known: ConfigFile) -> ConfigFile:
        """The file with its secrets sealed; those that a `known` sealed file has, too, keep their seals."""
        secrets, others = self.secrets, [file.secrets for file in known]
        with self._named():
            made = seal(secrets, *others)
        if made is secrets:
            return self
        alike = (file for file in known if file.text == made.text)
        return next(alike, ConfigFile(self.name, made.text, self.place, kind=self.kind, secrets=made))

    def masked(self) -> str:
        """The text as it may be shown."""
        secrets = self.secrets
        with self._named():
            return mask(secrets).text

    def shown_beside(self, before: ConfigFile) -> str:
        """The text as it may be shown; a secret whose seal the text before does not have says that it changed."""

        def word(secret: Secret) -> str:
            return SHOWN if secret.value in before.text else f"{SHOWN} (changed)"

        return replace_secrets(self.secrets, word).text

    def seals(self) -> set[str]:
        """The seals that the file holds."""
        return seals_in(self.secrets)

    def values_behind(self, sealed: ConfigFile) -> dict[str, str]:
        """Seal → value, of the secrets that this file has in clear and the same file `sealed` has not."""
        return values_behind(self.secrets, sealed.secrets)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except SecretError as error:
            raise SecretError(error.message, hint=error.hint, where=self.name) from None


Files: TypeAlias = "Mapping[str, ConfigFile]"
"""The files of a configuration by name."""


def of_texts(texts: Mapping[str, str], places: Mapping[str, str] | None = None) -> dict[str, ConfigFile]:
    """Files from their texts; `places` are the paths of those that stand in a folder."""
    return {name: ConfigFile(name, text, (places or {}).get(name)) for name, text in texts.items()}


def texts_of(files: Files) -> dict[str, str]:
    """Name → text, as clusters keep files."""
    return {name: file.text for name, file in files.items()}


def loaded(files: Files) -> Loaded:
    """The files as one bundle, as the rules take them; raises `PaictlError` if one of them holds too much."""
    return Loaded((Bundle("memory", tuple(document for file in files.values() for document in file.documents)),))
