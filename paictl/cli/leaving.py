"""What is said of services that machines without a registry cannot run; `deploy apply` and `service start` say it."""

from __future__ import annotations

from collections.abc import Sequence

from paictl.cli import console
from paictl.cli.console import said, spoken
from paictl.operate.services import LeftOut


def say_left(left: Sequence[LeftOut]) -> None:
    """Which services were left out and why, a line each, and what would let them start."""
    for one in left:
        console.write(f"{one.service}: {said(one.why)}")
    if any(one.images for one in left):
        console.info(
            spoken("to start them, put archives of their images into images/ of the artifacts and apply again")
        )
