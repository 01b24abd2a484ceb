"""Two files set the same service.

Why: only one of the two counts, and which one nobody can see: OpenPAI reads services-configuration.yaml, and changes in
the other file never arrive; or they do, and those in the first are lost.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    webportal: {server-port: 9286}

Fails::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    webportal: {server-port: 9286}

    # services-configuration-new.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    webportal: {server-port: 9386}
"""

from __future__ import annotations

from pathlib import PurePath

from paictl.config.linting.rule import ERROR, Bundle, Document, Finding, Findings, rule
from paictl.config.models.services import STANDARD_NAME
from paictl.config.reading.kinds import FileKind, kind_by_name
from paictl.config.reading.nodes import ScalarNode
from paictl.config.reading.source import place_of


@rule("XRF916", "service-set-twice", ERROR)
def check(bundle: Bundle) -> Findings:
    """Every section that another file of a folder has, where one bears the name that is read, or one that is near it.

    A folder of files with other names holds variants, to be pushed one at a time.
    """
    folders: dict[PurePath, list[Document]] = {}
    for document in bundle.of(FileKind.SERVICES):
        folders.setdefault(PurePath(document.path).parent, []).append(document)
    for documents in folders.values():
        documents.sort(key=lambda document: PurePath(document.path).name != STANDARD_NAME)
        if any(kind_by_name(document.path) is FileKind.SERVICES for document in documents):
            yield from _repeated(documents)


def _repeated(documents: list[Document]) -> Findings:
    first: dict[str, ScalarNode] = {}
    for document in documents:
        for entry in document.top:
            other = first.setdefault(entry.name, entry.key)
            if other is not entry.key:
                place = place_of(other)
                message = f"{entry.name} is set in {place.path} too, line {place.line}"
                yield Finding(entry.key, message, f"keep one of the two, in {STANDARD_NAME}")
