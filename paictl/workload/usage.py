"""The ledger of device time: which pod held how many devices, in which class, and what was promised meanwhile.

It has no clock: instants are integer milliseconds that the caller gives, in order. It alone guarantees that over any
window the device time of all spans equals the integral of the devices held (`docs/usage.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from paictl.frozen import frozen
from paictl.units import Millis

if TYPE_CHECKING:
    from paictl.scheduler.state import State


class UsageKind(StrEnum):
    """What device time was."""

    GUARANTEED = "guaranteed"
    OPPORTUNISTIC = "opportunistic"
    PROMISED = "promised"
    """Promised to a virtual cluster, used or not; it has neither user nor job."""
    LOST = "lost"
    """The part of what was used of which the work is gone; no span is of this kind."""


@frozen
class UsageAmount:
    """Device-milliseconds of one kind."""

    kind: UsageKind
    vc: str
    user: str
    job: str
    sku: str
    amount: int


@frozen
class UsageSpan:
    """`devices` of one SKU from `start` until `end`; `lost` if that time was cut off and its work with it."""

    kind: UsageKind
    vc: str
    user: str
    job: str
    sku: str
    devices: int
    start: Millis
    end: Millis
    lost: bool = False

    def within(self, start: Millis, end: Millis) -> int:
        """Device-milliseconds that lie in a window."""
        return self.devices * max(0, min(self.end, end) - max(self.start, start))

    def amounts(self, start: Millis, end: Millis) -> Iterator[UsageAmount]:
        """What lies in a window, and once more what of it is lost; nothing where that is nothing."""
        if amount := self.within(start, end):
            for kind in (self.kind, UsageKind.LOST) if self.lost else (self.kind,):
                yield UsageAmount(kind, self.vc, self.user, self.job, self.sku, amount)


@frozen
class Holding:
    """A pod that runs; `job` is ``user~name``, `classes` are (since, guaranteed) in order."""

    uid: str
    group: str
    vc: str
    job: str
    sku: str
    devices: int
    classes: tuple[tuple[Millis, bool], ...]

    def spans(self, end: Millis, *, lost: bool = False) -> Iterator[UsageSpan]:
        """Its time in each class until `end`; none for a class that it was in for no time."""
        ends = [since for since, _ in self.classes[1:]] + [end]
        for (start, guaranteed), until in zip(self.classes, ends, strict=True):
            if until > start:
                kind = UsageKind.GUARANTEED if guaranteed else UsageKind.OPPORTUNISTIC
                user = self.job.partition("~")[0]
                yield UsageSpan(kind, self.vc, user, self.job, self.sku, self.devices, start, until, lost)


class UsageLedger:
    """Pods that hold devices, promises that stand, and the spans that were closed since they were last taken."""

    def __init__(self, since: Millis) -> None:
        self.since = since
        """Nothing that ended before was counted."""
        self.closed: list[UsageSpan] = []
        """Spans that ended since the caller last took them away."""
        self._holdings: dict[str, Holding] = {}
        self._groups: dict[str, dict[str, None]] = {}
        """Uids of the holdings of each group."""
        self._promises: dict[tuple[str, str], tuple[int, Millis]] = {}
        """Devices, and since when, by virtual cluster and SKU."""

    # --- what happens

    def place(self, holding: Holding) -> None:
        """A pod got its devices."""
        if holding.uid in self._holdings:
            raise ValueError(f"pod {holding.uid} holds devices already")
        self._holdings[holding.uid] = holding
        self._groups.setdefault(holding.group, {})[holding.uid] = None

    def change_class(self, group: str, at: Millis, *, guaranteed: bool) -> None:
        """The pods of a group have a guarantee from now on, or no more; nothing to do where that is so already."""
        for uid in self._groups.get(group, ()):
            holding = self._holdings[uid]
            if holding.classes[-1][1] is not guaranteed:
                self._holdings[uid] = replace(holding, classes=(*holding.classes, (at, guaranteed)))

    def release(self, uid: str, at: Millis, *, lost: bool) -> None:
        """A pod has ended, and with `lost` its work is gone; nothing to do for one that held nothing."""
        holding = self._holdings.pop(uid, None)
        if holding is None:
            return
        pods = self._groups[holding.group]
        del pods[uid]
        if not pods:
            del self._groups[holding.group]
        self.closed.extend(holding.spans(at, lost=lost))

    def promise(self, at: Millis, devices: Mapping[tuple[str, str], int]) -> None:
        """From now on these devices are promised, by (virtual cluster, SKU), and no others."""
        for key, (before, since) in list(self._promises.items()):
            if devices.get(key, 0) != before:
                self.closed.extend(_promised(key, before, since, at))
                del self._promises[key]
        for key, number in devices.items():
            if number:
                self._promises.setdefault(key, (number, at))

    # --- what is known

    def __contains__(self, uid: str) -> bool:
        """Whether a pod holds devices."""
        return uid in self._holdings

    def __iter__(self) -> Iterator[str]:
        """The uids of the pods that hold devices."""
        return iter(self._holdings)

    def groups(self) -> list[str]:
        """Groups of which pods hold devices."""
        return list(self._groups)

    def open_spans(self, now: Millis) -> Iterator[UsageSpan]:
        """The time until now of what has not ended."""
        for holding in self._holdings.values():
            yield from holding.spans(now)
        for key, (devices, since) in self._promises.items():
            yield from _promised(key, devices, since, now)

    def dump(self) -> dict[str, Any]:
        """What is open, as JSON values; `closed` is the caller's to keep."""
        return {
            "since": self.since,
            "holdings": [
                [
                    holding.uid,
                    holding.group,
                    holding.vc,
                    holding.job,
                    holding.sku,
                    holding.devices,
                    [list(part) for part in holding.classes],
                ]
                for holding in self._holdings.values()
            ],
            "promises": [[*key, devices, since] for key, (devices, since) in self._promises.items()],
        }

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> UsageLedger:
        """The inverse of `dump`."""
        ledger = cls(Millis(data["since"]))
        for uid, group, vc, job, sku, devices, parts in data["holdings"]:
            classes = tuple((Millis(since), guaranteed) for since, guaranteed in parts)
            ledger.place(Holding(uid, group, vc, job, sku, devices, classes))
        ledger._promises = {(vc, sku): (devices, Millis(since)) for vc, sku, devices, since in data["promises"]}
        return ledger


def promises(state: State) -> dict[tuple[str, str], int]:
    """Devices that are promised, by virtual cluster and leaf type."""
    tree = state.virtual
    promised: dict[tuple[str, str], int] = {}
    for cell, top in tree.preassigned.items():
        key = (top.vc, tree.chains[tree.chain[cell]].leaf_type)
        promised[key] = promised.get(key, 0) + len(tree.shape(cell).leaves)
    return promised


def _promised(key: tuple[str, str], devices: int, start: Millis, end: Millis) -> Iterator[UsageSpan]:
    if end > start:
        yield UsageSpan(UsageKind.PROMISED, key[0], "", "", key[1], devices, start, end)
