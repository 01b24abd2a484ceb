"""What a letter of the picture stands for; alone here, because the command line needs it before any picture."""

from __future__ import annotations

from enum import StrEnum


class By(StrEnum):
    """What a letter stands for."""

    AUTO = "auto"
    JOB = "job"
    VC = "vc"
