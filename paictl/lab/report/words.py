"""Headings and words of the report."""

from __future__ import annotations

from paictl.lab.messages import say


def word(key: str, language: str, **values: object) -> str:
    """A word of the report in a language."""
    return say(f"report.{key}", language, **values)


def labelled(words: str, language: str) -> str:
    """Words with the colon of their language, for something to follow."""
    return f"{words}{'：' if language == 'zh' else ': '}"
