"""What kind of shell this is: one of a lab, of another, or of none."""

from __future__ import annotations

import os

from paictl.lab.folders import SHELL, lab_of_shell
from paictl.lab.session import Session


def in_lab_shell() -> bool:
    """Whether this shell was opened for a lab, so that exit leads back; one that took `lab env` was not."""

    return SHELL in os.environ


def in_lab(session: Session) -> bool:
    """Whether what is typed in this shell reaches this lab already, also after `lab env`."""

    return lab_of_shell() == session.lab.id


def other_lab(session: Session) -> bool:
    """Whether this shell was opened for another lab."""
    return in_lab_shell() and not in_lab(session)
