"""Tags of jobs: words by which people find jobs again. The scheduler never reads them.

A tag has 1 to 64 printable characters, none of them a space or a comma; a job has at most 20. Each is kept once, in the
order in which it was added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from paictl.errors import PaictlError
from paictl.i18n import text

FIELD: Final = "tags"
"""Their key below ``extras`` of a job file."""
MOST_TAGS: Final = 20
LONGEST_TAG: Final = 64
"""Characters."""


class TagError(PaictlError):
    """A tag that no job can have, or more of them than a job can have."""


def is_tag(word: str) -> bool:
    """Whether a word can be a tag."""
    return (
        1 <= len(word) <= LONGEST_TAG
        and word.isprintable()
        and not any(character.isspace() or character == "," for character in word)
    )


def refusal(words: Iterable[str]) -> tuple[str, str] | None:
    """What is wrong with the tags of a job, and what to do; None if nothing is."""
    try:
        with_changes((), words)
    except TagError as error:
        return error.message, error.hint or ""
    return None


def tags_of(extras: Mapping[Any, Any]) -> tuple[str, ...]:
    """The tags in a job's ``extras``. What no job can have is left out: to refuse it is the validator's (JOB636).

    A job that was taken before there were tags may have anything of its own there, and must stay readable.
    """
    tags = extras.get(FIELD)
    return known(word for word in tags if isinstance(word, str)) if isinstance(tags, list | tuple) else ()


def with_changes(tags: Iterable[str], add: Iterable[str] = (), remove: Iterable[str] = ()) -> tuple[str, ...]:
    """Tags after a change; what is both added and removed is removed, and to remove what is not there does nothing.

    Raises `TagError` for a word that cannot be a tag, and for too many of them.
    """
    added, removed = tuple(add), frozenset(remove)
    for word in (*added, *removed):
        if not is_tag(word):
            raise TagError(
                text("{tag!r} cannot be a tag", tag=word[: LONGEST_TAG + 1]),
                hint=text("a tag has 1 to {most} characters, without spaces and commas", most=LONGEST_TAG),
            )
    changed = tuple(tag for tag in dict.fromkeys((*tags, *added)) if tag not in removed)
    if len(changed) > MOST_TAGS:
        raise TagError(
            text("{count} tags are too many; a job can have {most}", count=len(changed), most=MOST_TAGS),
            hint=text("remove some that you no longer need"),
        )
    return changed


def known(words: Iterable[str]) -> tuple[str, ...]:
    """What of some words can be a job's tags; for what someone has written by hand."""
    return tuple(dict.fromkeys(filter(is_tag, words)))[:MOST_TAGS]
