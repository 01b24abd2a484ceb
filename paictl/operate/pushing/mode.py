"""What a push takes of a folder. Alone here, because the command line needs it before anything heavy is read."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """What is taken of a folder, as in OpenPAI."""

    ALL = "all"
    SERVICE = "service"
