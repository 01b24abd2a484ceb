"""A push of configuration files: read, checked, merged, compared with what others did, and sent.

Nothing here must ever send files that nobody has seen the effect of: `plan` decides everything and changes nothing,
`send` does what a plan says, and only if the cluster is still as the plan found it.

What a push takes of a folder (`Mode`) is here, because the command line needs it before anything heavy is read.
"""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """What is taken of a folder, as in OpenPAI."""

    ALL = "all"
    SERVICE = "service"
