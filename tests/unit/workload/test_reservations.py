"""Reservations as values: when they come, what a gang takes of them, and which of them get into each other's way."""

from __future__ import annotations

import random

import pytest

from paictl.units import Millis
from paictl.workload.reservations import (
    Repeat,
    Reservation,
    ReservationError,
    Reservations,
    overlap,
    read_reservation,
    reservation_row,
)

HOUR = 3_600_000
DAY = 24 * HOUR


def cells(name: str, start: float, hours: float = 2, **more: object) -> Reservation:
    begin, end = Millis(round(start * HOUR)), Millis(round((start + hours) * HOUR))
    return Reservation(name, begin, end, **{"vc": "a", "cells": 2, "cell_type": "QUAD", "leaves": 4, **more})  # type: ignore[arg-type]


def at(hours: float) -> Millis:
    return Millis(round(hours * HOUR))


def test_occurrences_come_once_or_again() -> None:
    once, daily = cells("once", 10), cells("daily", 10, repeat=Repeat.DAILY)
    assert once.occurrence(at(0)) == (at(10), at(12)) == once.occurrence(at(11.9))
    assert once.occurrence(at(12)) is None
    assert daily.occurrence(at(12)) == (at(34), at(36))
    assert daily.occurrence(at(35)) == (at(34), at(36))
    assert list(daily.begins(at(10), at(60))) == [at(34), at(58)]
    assert [daily.is_active(at(hour)) for hour in (9.9, 10, 12, 34, 36)] == [False, True, False, True, False]


def test_pods_share_a_cell_where_several_fit() -> None:
    quad = cells("quad", 0)
    for members in (((4, 2),), ((2, 3),), ((1, 5),), ((3, 2),), ((8, 1),), ((1, 1), (4, 1))):
        assert quad.uses(members) == 2, members


def test_moments_are_the_first_instants_of_each_set() -> None:
    known = Reservations((cells("x", 10), cells("y", 11), cells("z", 11, vc="b"), cells("d", 12, repeat=Repeat.DAILY)))
    found = [(moment, [one.name for one in active]) for moment, active in known.moments("a", at(0))]
    assert found == [(at(10), ["x"]), (at(11), ["x", "y"]), (at(12), ["y", "d"]), (at(36), ["d"])]
    assert known.moments("c", at(0)) == []
    assert [active for _, active in known.moments("b", at(13))] == []


@pytest.mark.parametrize("seed", range(60))
def test_moments_are_those_of_the_definition(seed: int) -> None:
    rng, now = random.Random(seed), at(30)  # noqa: S311 - a property test
    known = Reservations(
        tuple(
            cells(
                f"r{number}",
                rng.randrange(60),
                rng.randrange(1, 25),
                vc=rng.choice("aab"),
                repeat=rng.choice([*Repeat]),
            )
            for number in range(rng.randrange(1, 9))
        )
    )
    mine = [one for one in known.of("a") if one.occurrence(now) is not None]
    sets: dict[tuple[Reservation, ...], Millis] = {}
    for hour in range(30, 400 if mine else 30):  # all of them begin and end at full hours, and recur after a week
        if hour == 30 or any(list(one.begins(at(hour - 1), at(hour))) for one in mine):
            sets.setdefault(tuple(one for one in mine if one.is_active(at(hour))), at(hour))
    sets.pop((), None)
    assert known.moments("a", now) == [(moment, active) for active, moment in sets.items()]


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        (cells("a", 10), cells("b", 12), False),
        (cells("a", 10), cells("b", 11), True),
        (cells("a", 10, repeat=Repeat.DAILY), cells("b", 35), True),
        (cells("a", 10, repeat=Repeat.DAILY), cells("b", 36), False),
        (cells("a", 10, repeat=Repeat.WEEKLY), cells("b", 34, repeat=Repeat.DAILY), True),
        (cells("a", 10, repeat=Repeat.DAILY), cells("b", 13, repeat=Repeat.WEEKLY), False),
    ],
)
def test_overlaps_are_seen_in_every_occurrence(one: Reservation, other: Reservation, meet: bool) -> None:
    assert overlap(one, other, at(0)) is overlap(other, one, at(0)) is meet


def test_what_is_wrong_with_one_is_said_before_it_is_added() -> None:
    known = Reservations((cells("x", 10, vc="", nodes=("n1",)),))
    for new, said in (
        (cells("x", 20), "already exists"),
        (cells("y", -1), "begins in the past"),
        (cells("y", 1, 25, repeat=Repeat.DAILY), "lasts longer"),
        (cells("y", 11, vc="", nodes=("n1",)), "overlaps reservation x of n1"),
        (cells("y", 1, vc="", nodes=("n9",)), "no node 'n9'"),
        (cells("Y", 1), "not a valid reservation name"),
        (cells("y", 1, cells=0), "has no cells"),
    ):
        with pytest.raises(ReservationError, match=said):
            known.added(new, at(0), ("n1", "n2"))
    assert known.added(cells("y", 12, vc="", nodes=("n1",)), at(0), ("n1",)).free_name() == "reservation-1"


def test_a_reservation_is_the_same_after_it_was_written_down() -> None:
    known = cells("x", 10, repeat=Repeat.WEEKLY, reason="talk")
    assert read_reservation(reservation_row(known)) == known


def test_nodes_are_held_for_this_and_the_next_occurrence_but_not_from_its_own_jobs() -> None:
    known = Reservations((cells("x", 10, vc="", nodes=("n1",), repeat=Repeat.DAILY),))
    assert [(window.start, window.hold) for window in known.holds(at(0))] == [(at(10), True), (at(34), True)]
    assert known.holds(at(0), "x") == ()
