"""The picture of a cluster on a terminal.

It must never ask a cluster: it draws what it is given.

What a letter of the picture stands for (`By`) is here, because the command line needs it before any picture.
"""

from __future__ import annotations

from enum import StrEnum


class By(StrEnum):
    """What a letter stands for."""

    AUTO = "auto"
    JOB = "job"
    VC = "vc"
