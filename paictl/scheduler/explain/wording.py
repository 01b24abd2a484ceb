"""An explanation in words, one line for each point: the request, the views, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paictl.frozen import frozen
from paictl.i18n import Text, joined, text
from paictl.scheduler.explain.data import PodVerdict
from paictl.scheduler.explain.text import (
    FULL,
    Names,
    lost_text,
    members_text,
    outcome_text,
    smaller_text,
    tried_text,
    unpromised_text,
    view_texts,
    way_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paictl.scheduler.explain.data import Explanation, JointMove

DETAILED: Final = 2
"""Views that are shown in detail; each of the others gets one line."""


@frozen
class ViewText:
    """Which view was tried and why it has no place, and the details below it."""

    tried: Text
    details: tuple[Text, ...]


@frozen
class ExplanationText:
    """An explanation in words, part by part: `render` makes lines of it, a page its sections."""

    asks: Text
    outcome: Text | None
    """Where it would run, for a pod that does not wait for room."""
    views: tuple[ViewText, ...] = ()
    notes: tuple[Text, ...] = ()
    ways: Text | None = None
    """The heading of the changes, or a sentence that there are none."""
    changes: tuple[Text, ...] = ()
    """In the order of `Explanation.changes`."""
    smaller: Text | None = None
    together: tuple[Text, ...] = ()
    """For a lost pod: what it and its gang's other lost pods wait for together, and what would let them move."""


def render(explanation: Explanation, names: Names = FULL, *, full: bool = False) -> list[str]:
    """The lines of an explanation, without line ends; suggested priorities are given by class if they have one.

    Only the first views are shown in detail; `full` shows all of them, and the smaller group that would run.
    """
    words = wording(explanation, names)
    if words.outcome is not None:
        return [words.asks, joined("", ["  ", words.outcome])]
    lines: list[str] = [words.asks]
    for number, view in enumerate(words.views, 1):
        lines.append(view.tried)
        if full or number <= DETAILED:
            lines += [joined("", ["   ", line]) for line in view.details]
    lines += words.notes
    if words.ways is not None:
        lines.append(words.ways)
    lines += [joined("", ["- ", line]) for line in words.changes]
    lines += words.together
    if full and words.smaller is not None:
        lines.append(words.smaller)
    return lines


def wording(explanation: Explanation, names: Names = FULL) -> ExplanationText:
    """The words of an explanation by part."""
    request = explanation.request
    pod = names.short(request.name)
    kind = (
        text("priority {priority}, guaranteed", priority=request.priority)
        if request.guaranteed
        else text("opportunistic")
    )
    asks = text(
        "group {group} of VC {vc} asks for {pods} ({kind})",
        group=names.short(request.group),
        vc=request.vc,
        pods=members_text(request.members),
        kind=kind,
    )
    if explanation.outcome is not None:
        verb = (
            "Pod {pod} can run now: {asks}."
            if explanation.decision is PodVerdict.BIND
            else ("Pod {pod} waits for others to leave: {asks}.")
        )
        would = text("It would {outcome}.", outcome=outcome_text(explanation.outcome, names))
        return ExplanationText(text(verb, pod=pod, asks=asks), would)
    notes = []
    if not explanation.views:
        notes.append(text("VC {vc} has no quota where this pod could run.", vc=request.vc))
    if explanation.physical:
        notes.append(unpromised_text(explanation))
    ways = (
        text("Any one of these would let it run, least disturbing first:")
        if explanation.changes
        else text("No single change of nodes, quota, priority or running groups was found that would let it run now.")
    )
    return ExplanationText(
        text("Pod {pod} waits: {asks}.", pod=pod, asks=asks),
        None,
        tuple(
            ViewText(tried_text(number, view), tuple(view_texts(view, names)))
            for number, view in enumerate(explanation.views, 1)
        ),
        tuple(notes),
        ways,
        tuple(way_text(change, names) for change in explanation.changes),
        None if explanation.smaller is None else smaller_text(explanation.smaller, names),
        () if explanation.together is None else tuple(_together(explanation.together, names)),
    )


def _together(move: JointMove, names: Names) -> Iterator[Text]:
    """Why lost pods of a gang cannot move together either, and what would let them."""
    yield lost_text(move.cells)
    words = wording(move.explanation, names)
    for view in words.views[:DETAILED]:
        yield view.tried
        yield from (joined("", ["   ", line]) for line in view.details)
    yield (
        text("Any one of these would let them move together now, least disturbing first:")
        if words.changes
        else text("No single change of nodes, quota or running groups was found that would let them move together.")
    )
    yield from (joined("", ["- ", line]) for line in words.changes)
