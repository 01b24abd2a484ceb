"""One thing that was looked at: what should be, what is; as keys and arguments that both languages can say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from paictl.frozen import frozen
from paictl.lab.messages import Message, by_language, joined, literal, message, message_from
from paictl.units import parse_duration

NOTHING: Final = message("nothing")
"""Observed where there is nothing to observe."""

YES_OR_NO: Final = {True: message("yes"), False: message("no")}

_HOURS_FROM: Final = 120
"""Minutes."""
_DAYS_FROM: Final = 2 * 24 * 60
"""Minutes."""

WHOLE: Final = frozenset({"no-such-job", "not-typed", "not-refused", "not-both", "not-asked", "no-event", "not-placed"})
"""Keys of observations that need no aspect before them."""


@frozen
class Mismatch:
    """`aspect` (``state``, a key below ``aspect.``) of `subject` should be `expected` and is `observed`."""

    ok: bool
    subject: Message
    aspect: str
    expected: Message
    observed: Message

    def say(self, language: str) -> tuple[str, str]:
        """(expected, observed) as lines in a language."""
        expected = _of(self.aspect, self.expected)
        observed = self.observed if self.observed.key in WHOLE else _of(self.aspect, self.observed)
        return message("found", subject=self.subject, what=expected).text(language), observed.text(language)

    def row(self) -> list[Any]:
        """The finding as plain data without its verdict, for the progress file."""
        return [self.subject.data(), self.aspect, self.expected.data(), self.observed.data()]


def passed_finding(row: list[Any]) -> Mismatch:
    """A finding of a check that passed, from its row; older paictl kept English texts."""
    subject, aspect, expected, observed = row
    return Mismatch(True, _stored(subject), aspect, _stored(expected), _stored(observed))


def _stored(value: Any) -> Message:
    return message_from(value) if isinstance(value, dict) else literal(value)


def _of(aspect: str, value: Message) -> Message:
    return message(f"aspect.{aspect}", value=value) if aspect else value


def exact(subject: Message, aspect: str, choices: Any, observed: Any) -> Mismatch:
    """`observed` must be one of `choices` (a list, or a single value)."""
    several = [_value(choice) for choice in choices] if isinstance(choices, list) else [_value(choices)]
    expected = several[0] if len(several) == 1 else joined("join.or", several)
    return Mismatch(_value(observed) in several, subject, aspect, expected, _value(observed))


def _value(value: Any) -> Message:
    if isinstance(value, Message):
        return value
    return NOTHING if value is None or value == "" else literal(value)


def number(subject: Message, aspect: str, bound: int | Mapping[str, int], observed: int) -> Mismatch:
    """`observed` must be within `bound`: a number, or ``at-least`` and ``at-most`` some."""
    least, most, words = bounds(bound)
    ok = int(least) <= observed <= (observed if most is None else int(most))
    return Mismatch(ok, subject, aspect, words, literal(observed))


def span(
    subject: Message, aspect: str, bound: str | Mapping[str, str], observed: int | None, tolerance: int = 0
) -> Mismatch:
    """`observed` (milliseconds; None: not at all) must be within `bound`: a span, or ``at-least`` and ``at-most`` one.

    It may be off by `tolerance` (milliseconds), or by half of the span if that is more; 0: not at all.
    """
    least, most, words = bounds(_as_observed(bound))
    low, high = _millis(least), None if most is None else _millis(most)
    if tolerance:
        low -= max(tolerance, low // 2)
        high = None if high is None else high + max(tolerance, high // 2)
    ok = observed is not None and observed >= low and (high is None or observed <= high)
    return Mismatch(ok, subject, aspect, words, NOTHING if observed is None else literal(span_text(observed)))


def text(subject: Message, aspect: str, pattern: str, observed: str) -> Mismatch:
    """A pattern must match in `observed`; the matching line is shown, else the first one."""
    match = re.search(pattern, observed)
    line = next(
        (line for line in observed.splitlines() if re.search(pattern, line)), observed.partition("\n")[0]
    ).strip()
    return Mismatch(
        match is not None,
        subject,
        aspect,
        quoted(plain(pattern)) if plain(pattern) else NOTHING,
        quoted(line) if line else NOTHING,
    )


def in_both(english: Mismatch, chinese: Mismatch) -> Mismatch:
    """The same finding made on the texts of both languages, said to each reader in his own; both must be so."""
    texts = ({"en": english.expected, "zh": chinese.expected}, {"en": english.observed, "zh": chinese.observed})
    expected, observed = map(by_language, texts)
    return replace(english, ok=english.ok and chinese.ok, expected=expected, observed=observed)


def plain(pattern: str) -> str:
    """A regular expression of a manifest as a student reads it: what is looked for, with … where anything may stand.

    Manifests keep to ``.*``, anchors and escapes (a test says so): others have no plain reading.
    """
    words = re.sub(r"^\^|(?<!\\)\$$", "", pattern)
    return re.sub(r"\\(.)", r"\1", re.sub(r"(?<!\\)\.[*+]", " … ", words)).strip()


def quoted(words: str) -> Message:
    """Words of a command or file, which stay as they are in every language."""
    return literal(f"“{words}”")


def bounds(bound: Any) -> tuple[Any, Any, Message]:
    """(least, most or None, in words) of what a manifest wants: a value, or ``at-least`` and ``at-most`` some."""
    if not isinstance(bound, Mapping):
        return bound, bound, literal(bound)
    least, most = bound.get("at-least", 0), bound.get("at-most")
    if most is None:
        return least, most, message("at-least", least=least)
    if "at-least" not in bound:
        return least, most, message("at-most", most=most)
    return least, most, message("between", least=least, most=most)


def _as_observed(bound: Any) -> Any:
    """The spans of a manifest, written as observed ones are: not 1h where 60m is observed."""
    if isinstance(bound, Mapping):
        return {key: span_text(_millis(word)) for key, word in bound.items()}
    return span_text(_millis(bound))


def _millis(word: Any) -> int:
    return round(parse_duration(str(word)) * 1000)


def span_text(millis: int) -> str:
    """A span as ``40s``, ``5m``, ``5m30s``; from two hours on as ``2h05m``, from two days on as ``2d03h``."""
    seconds = millis // 1000
    minutes, rest = divmod(seconds, 60)
    if minutes >= _DAYS_FROM:
        days, hours = divmod(minutes // 60, 24)
        return f"{days}d{hours:02}h" if hours else f"{days}d"
    if minutes >= _HOURS_FROM:
        return f"{minutes // 60}h{minutes % 60:02}m"
    return (f"{minutes}m{rest:02}s" if rest else f"{minutes}m") if minutes else f"{seconds}s"
