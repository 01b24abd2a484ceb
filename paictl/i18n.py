"""Texts for people, by key and arguments: the key is the English text, catalogues hold the other languages.

A catalogue is `locale/LANGUAGE.po`, the file of GNU gettext, so that every tool for translators opens it. It is read as
it is: to keep compiled `.mo` files in step with it would be one more thing to forget. A text without an entry stays
English. What is a name, a path or a command is an argument and the same in every language.
"""

from __future__ import annotations

import ast
import gettext
import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final

from paictl.resources import resource_folder
from paictl.suggestions import nearest

LANGUAGES: Final = ("en", "zh")
VARIABLE: Final = "PAICTL_LANG"


class Text(str):
    """An English text that knows how it was made, so that it can be said in another language.

    It behaves as the string it is; a text that is cut or put into another string is English for good.
    """

    __slots__ = ("key", "many", "values")
    key: str
    many: str | None
    values: dict[str, Any]

    def of(self, language: str) -> str:
        """The text in a language."""
        words = catalogue(language)
        template = words.gettext(self.key) if self.many is None else words.ngettext(self.key, self.many, self._count())
        values = {
            name: translated(value, language) if isinstance(value, str) else value
            for name, value in self.values.items()
        }
        return template.format(**values)

    def shown_by(self, show: Callable[[str], str]) -> Text:
        """The text as `show` makes it, in every language: it is used on the English and on each argument."""
        values = {
            name: value.shown_by(show) if isinstance(value, Text) else show(value) if isinstance(value, str) else value
            for name, value in self.values.items()
        }
        made = Text(show(self))
        made.key, made.many, made.values = self.key, self.many, values
        return made

    def _count(self) -> int:
        return int(self.values["count"])


def text(key: str, /, **values: Any) -> Text:
    """A text with places for arguments: ``text("there is no node {name!r}", name=name)``."""
    return _made(key, None, values)


def counted(singular: str, plural: str, /, count: int, **values: Any) -> Text:
    """A text about a number of things: ``counted("{count} job", "{count} jobs", count=3)``."""
    return _made(singular, plural, {"count": count, **values})


def joined(separator: str, parts: Iterable[str]) -> Text:
    """Several texts as one, each of them said in the language that is asked for."""
    values = {f"part{number}": part for number, part in enumerate(parts)}
    return _made(separator.join(f"{{{name}}}" for name in values), None, values)


def sayable(words: str) -> Text:
    """What was said, as a text that can be put into another one and still be said in another language."""
    return words if isinstance(words, Text) else phrase(words)


def recalled(words: str, keys: Iterable[str]) -> str:
    """What was said before it was stored, or came over a wire: made anew of the first key whose places fit the words.

    Words that no key fits, and places that hold words themselves, stay as they are.
    """
    for key in keys:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+)", re.escape(key))
        if (match := re.fullmatch(pattern, words)) is not None:
            return text(key, **match.groupdict())
    return words


def phrase(words: str) -> Text:
    """Words that are not written in the code, such as a description in a schema, to be put into another text."""
    return _made(words.replace("{", "{{").replace("}", "}}"), None, {})


def _made(key: str, many: str | None, values: dict[str, Any]) -> Text:
    template = key if many is None or values["count"] == 1 else many
    made = Text(template.format(**values))
    made.key, made.many, made.values = key, many, values
    return made


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names for a message, not more of them than anybody reads."""
    every = list(names)
    shown = ", ".join(every[:most])
    return text("{names} and {count} more", names=shown, count=len(every) - most) if len(every) > most else shown


def did_you_mean(word: str, known: Iterable[str]) -> Text | None:
    """`did you mean X?` for the nearest known word, else None; one letter in three may be wrong, as in `K8O`."""
    near = nearest(word, known, 0.6)
    return text("did you mean {near!r}?", near=near) if near else None


def in_language(sentence: str, language: str) -> str:
    """What is said, in a language; texts without arguments need no `Text`."""
    if isinstance(sentence, Text):
        return sentence.of(language)
    return catalogue(language).gettext(sentence) if sentence else sentence


def translated(words: str, language: str) -> str:
    """A text in a language; other strings, which may be names or lines of a file, as they are."""
    return words.of(language) if isinstance(words, Text) else words


def known(name: object) -> str | None:
    """The language that a name such as ``zh_CN.UTF-8`` means; None if there is none of it."""
    short = str(name or "").lower()[:2]
    return short if short in LANGUAGES else None


def chosen(setting: object = None) -> str:
    """The language for this process: PAICTL_LANG, else what a configuration file says, else English."""
    return known(os.environ.get(VARIABLE)) or known(setting) or "en"


class MessageCatalogue(gettext.NullTranslations):
    """The entries of one language; Chinese has one form for all numbers, and no other language is there yet."""

    def __init__(self, entries: dict[str, str]) -> None:
        super().__init__()
        self._entries = entries

    def gettext(self, message: str) -> str:
        """The text in this language, or as it is."""
        return self._entries.get(message) or message

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        """The text for a number of things."""
        return self._entries.get(msgid1) or (msgid1 if n == 1 else msgid2)


@cache
def catalogue(language: str) -> MessageCatalogue:
    """The catalogue of a language; empty for English and for languages that there are none of."""
    if language == "en" or language not in LANGUAGES:
        return MessageCatalogue({})

    lines = (resource_folder("locale") / f"{language}.po").read_text(encoding="utf-8").splitlines()
    return MessageCatalogue(dict(_entries(lines)))


def _entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    """(text, translation) of every entry of a `.po` file; raises `ValueError` with the line that is none."""
    entry: dict[str, str] = {}
    keyword = ""
    for number, line in enumerate([*lines, ""], 1):
        word, _, rest = line.partition(" ")
        if not line or (word == "msgid" and "msgstr" in entry):
            if entry.get("msgid"):
                yield entry["msgid"], entry.get("msgstr") or entry.get("msgstr[0]", "")
            entry = {}
        if not line or line.startswith("#"):
            continue
        if not line.startswith('"'):
            keyword, line = word, rest
            entry[keyword] = ""
        try:
            entry[keyword] += _unquoted(line)
        except (SyntaxError, ValueError, KeyError):
            raise ValueError(f"line {number} of the catalogue is not an entry: {line!r}") from None


def _unquoted(line: str) -> str:
    """What is in quotes; most lines need no parser for it, which is slow. Raises `SyntaxError` or `ValueError`."""
    plain = line[1:-1]
    if len(line) >= 2 and line[0] == line[-1] == '"' and '"' not in plain and "\\" not in plain:
        return plain
    read: str = ast.literal_eval(line)
    return read
