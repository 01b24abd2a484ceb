"""One thing that was looked at: what should be, what is; and how to say it in both languages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from paictl.lab.words import aspect_in_chinese, in_chinese
from paictl.units import parse_duration

NOTHING: Final = "nothing"
"""Observed where there is nothing to observe."""

WHOLE: Final = frozenset({"no such job", "not typed yet", "not refused yet", "not both have run yet"})
"""Observations that need no aspect before them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`aspect` of `subject` (``job job-2``) should be `expected` and is `observed`; both as people read them."""

    ok: bool
    subject: str
    aspect: str
    expected: str
    observed: str

    def say(self, language: str) -> tuple[str, str]:
        """(expected, observed) as lines in a language."""
        aspects = (self.aspect, "" if self.observed in WHOLE else self.aspect)
        pairs = list(zip(aspects, (self.expected, self.observed), strict=True))
        if language == "zh":
            expected, observed = (_join(aspect_in_chinese(what), in_chinese(one)) for what, one in pairs)
            return f"{in_chinese(self.subject)}：{expected}", observed
        expected, observed = (_join(what, one) for what, one in pairs)
        return f"{self.subject}: {expected}", observed


def _join(aspect: str, value: str) -> str:
    return f"{aspect}{value}" if aspect.endswith("：") else f"{aspect} {value}".strip()


def exact(subject: str, aspect: str, wanted: Any, seen: Any) -> Finding:
    """`seen` must be `wanted`, or one of several wanted."""
    several = [str(one) for one in wanted] if isinstance(wanted, list) else [str(wanted)]
    return Finding(str(seen) in several, subject, aspect, " or ".join(several), str(seen) or NOTHING)


def number(subject: str, aspect: str, wanted: int | Mapping[str, int], seen: int) -> Finding:
    """`seen` must be a number, or at least and at most some."""
    least, most, words = _bounds(wanted)
    return Finding(int(least) <= seen <= (seen if most is None else int(most)), subject, aspect, words, str(seen))


def span(subject: str, aspect: str, wanted: str | Mapping[str, str], seen: int | None) -> Finding:
    """`seen` (milliseconds, None for not at all) must be a span, or at least and at most one."""
    least, most, words = _bounds(wanted)
    low, high = _millis(least), None if most is None else _millis(most)
    ok = seen is not None and seen >= low and (high is None or seen <= high)
    return Finding(ok, subject, aspect, words, NOTHING if seen is None else _span_text(seen))


def text(subject: str, aspect: str, pattern: str, seen: str) -> Finding:
    """A pattern must be found in `seen`; of several lines that with the pattern is shown, else the first."""
    found = re.search(pattern, seen)
    line = next((one for one in seen.splitlines() if re.search(pattern, one)), seen.partition("\n")[0]).strip()
    return Finding(found is not None, subject, aspect, quoted(pattern), quoted(line) if line else NOTHING)


def quoted(words: str) -> str:
    """Words of a command or file, which stay as they are in every language."""
    return f"“{words}”"


def _bounds(wanted: Any) -> tuple[Any, Any, str]:
    if not isinstance(wanted, Mapping):
        return wanted, wanted, str(wanted)
    least, most = wanted.get("at-least", 0), wanted.get("at-most")
    words = ([f"at least {least}"] if "at-least" in wanted else []) + ([f"at most {most}"] if most is not None else [])
    return least, most, " and ".join(words)


def _millis(word: Any) -> int:
    return round(parse_duration(str(word)) * 1000)


def _span_text(millis: int) -> str:
    seconds = millis // 1000
    minutes, rest = divmod(seconds, 60)
    return (f"{minutes}m{rest:02}s" if rest else f"{minutes}m") if minutes else f"{seconds}s"
