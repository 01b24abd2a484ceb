"""Objects as text, for `kubectl apply -f -`, for files that people review, and for other tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import yaml

from paictl.cluster.manifests.certificates import CertificateSet
from paictl.cluster.manifests.context import Renderer, RenderInputs
from paictl.frozen import frozen

_WIDE: Final = 1 << 30
"""Characters of a line: nothing is folded, so that a text stays in one piece."""


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks; nothing shared."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - objects stand alone
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


class Verbatim(str):
    """A text that is written in double quotes whatever it holds, because something will be put in its place."""

    __slots__ = ()


def _quoted(dumper: _Dumper, text: Verbatim) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|" if "\n" in text else '"')


_Dumper.add_representer(Verbatim, _quoted)


def to_yaml(bodies: Iterable[Mapping[str, Any]]) -> str:
    """Objects as documents, each with a line of dashes before it."""
    return yaml.dump_all(bodies, Dumper=_Dumper, sort_keys=False, width=_WIDE, explicit_start=True, allow_unicode=True)


def to_document(value: Any) -> str:
    """One value as a file of YAML, without dashes before it."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=_WIDE, allow_unicode=True))


@frozen
class Exported:
    """What is exported: a cluster's id, its files with seals in the place of secrets, and which version they are.

    `secrets` maps a seal to ``TAG:VALUE``; `services` are names in the order in which they start.
    """

    cluster_id: str
    files: Mapping[str, str]
    services: Sequence[str]
    version: str
    """Of paictl."""
    namespace: str
    jobs_namespace: str
    number: int = 1
    at: datetime | None = None

    def renderer(
        self, secrets: Mapping[str, str] | None = None, certificates: CertificateSet | None = None
    ) -> Renderer:
        """What renders its services; with certificates also those of kube-scheduler and the extender."""
        inputs = RenderInputs(
            self.cluster_id, self.namespace, self.jobs_namespace, self.version, self.files, secrets or {}, certificates
        )
        return Renderer(inputs)
