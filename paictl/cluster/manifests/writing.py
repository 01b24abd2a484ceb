"""Objects as text: documents of YAML for `kubectl apply -f -` and for files that people review."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml

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


def to_yaml(found: Iterable[Mapping[str, Any]]) -> str:
    """Objects as documents, each with a line of dashes before it."""
    return yaml.dump_all(found, Dumper=_Dumper, sort_keys=False, width=_WIDE, explicit_start=True, allow_unicode=True)


def to_document(value: Any) -> str:
    """One value as a file of YAML, without dashes before it."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=_WIDE, allow_unicode=True))
