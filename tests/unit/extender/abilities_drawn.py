"""What `AbilitiesWorld` draws before it begins (a section `sharing`, how the door behaves), and the gangs it runs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from paictl.remote.kube.client import Json
from tests.unit.extender.conftest import CONFIG

NODES: Final = [f"n{number}" for number in range(8)]
LEAVES: Final = 4
VCS: Final = ("A", "B", "C")
CELLS: Final[Json] = {
    "physicalCluster": {
        "cellTypes": {
            **CONFIG["physicalCluster"]["cellTypes"],
            "POOL": {"childCellType": "NODE", "childCellNumber": len(NODES)},
        },
        "physicalCells": [{"cellType": "POOL", "cellChildren": [{"cellAddress": node} for node in NODES]}],
    },
    "virtualClusters": {
        "A": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 3}]},
        "B": {
            "virtualCells": [
                {"cellType": "POOL.NODE", "cellNumber": 1},
                {"cellType": "POOL.NODE.SWITCH", "cellNumber": 2},
            ]
        },
        "C": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 2}]},
    },
}

SAYS: Final = {
    "budgets": "the budget of",
    "user-limits": "guaranteed devices in virtual cluster",
    "borrow-limits": "virtual cluster B may borrow",
    "lend-limits": "lend limits keep",
    "spares": "for repairs",
    "order": "another gang goes first",
    "min-run-times": "minimum run time",
    "backfill": "it would delay",
    "windows": "maintenance windows close",
    "reservations": "reserv",
}
"""By ability what the reason says of a pod that it holds back."""

ABILITIES: Final[dict[str, Callable[[random.Random], Any]]] = {
    "budgets": lambda dice: [
        {"vc": "C", "device-hours": dice.choice((40, 80)), "over": dice.choice(("wait", "wait", "refuse", "warn"))},
        {"vc": "A", "user": dice.choice(("*", "ann")), "device-hours": dice.choice((60, 200))},
    ],
    "user-limits": lambda dice: [
        {"vc": "A", "devices": dice.choice((6, 10))},
        {"vc": "B", "user": "ann", "devices": 4},
    ],
    "borrow-limits": lambda dice: [{"vc": "B", "devices": dice.choice((2, 6))}],
    "lend-limits": lambda dice: [
        {"vc": "A", "devices": dice.choice((0, 4))},
        {"vc": "C", "devices": dice.choice((0, 2, 6))},
    ],
    "spares": lambda dice: [{"vc": dice.choice(VCS), "devices": dice.choice((2, 4))}],
    "departments": lambda dice: dice.choice(
        (
            [{"name": "research", "vcs": ["A", "B"]}],
            [
                {"name": "research", "devices": 28},
                {"name": "vision", "parent": "research", "vcs": ["A"]},
                {"name": "speech", "parent": "research", "vcs": ["C"]},
            ],
        )
    ),
    "opportunistic-order": lambda dice: {"by": "decayed-use", "half-life": dice.choice(("1h", "24h"))},
    "preemption": lambda dice: {"victims": dice.choice(("least-loss", "least-loss", "fewest-devices"))},
    "min-run-times": lambda dice: [
        {"vc": "A", "time": "10m"},
        *dice.choice(([], [{"time": "5m"}], [{"vc": "C", "time": "1h"}])),
    ],
    "backfill": lambda dice: dice.choice(
        (
            [{"mode": "easy"}],
            [{"mode": "conservative"}],
            [{"mode": "easy"}, {"vc": dice.choice(VCS), "mode": "conservative"}],
        )
    ),
}
"""By key of the section what it may say. What is asked when a job is submitted is not for doors."""


@dataclass
class Drawn:
    """What a world has."""

    section: Json
    calm: bool
    """No failures, windows and reservations, during which conservative backfill only promises the first start."""
    heal_after: float
    bad_device_deadline: float | None
    longest_grace: float


def drawn(dice: random.Random) -> Drawn:
    """The dice decide each ability by itself; one world in six has them all."""
    everything = dice.random() < 1 / 6
    section = {key: draw(dice) for key, draw in ABILITIES.items() if everything or dice.random() < 0.7}
    return Drawn(
        section,
        dice.random() < 1 / 3,
        dice.choice((0.0, 0.0, 120.0)),
        dice.choice((None, 60.0, 600.0)),
        dice.choice((60.0, 300.0)),
    )


@dataclass
class GangRun:
    """A gang and how far it is."""

    pods: list[Json]
    vc: str
    user: str
    priority: int
    limit: int | None
    """Seconds; None for none."""
    lazy: bool = False
    reservation: str = ""
    began: float | None = None
    """When the first of its containers did."""
    going: bool = False
    """Whether one of its pods was evicted: all go."""

    @property
    def bound(self) -> list[Json]:
        return [pod for pod in self.pods if pod["spec"].get("nodeName")]

    @property
    def devices(self) -> int:
        return sum(int(pod["leaves"]) for pod in self.pods)


@dataclass
class UseBefore:
    """What was used before a pod was asked about."""

    held: Counter[tuple[str, str]]
    """Devices of gangs with a guarantee by (virtual cluster, user)."""
    places: Counter[tuple[str, bool]]
    """Devices of all places by virtual cluster, and whether guaranteed; those of victims count for who gets them."""
