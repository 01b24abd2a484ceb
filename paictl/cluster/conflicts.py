"""The errors for a version of the configuration or an account that is not what a client thinks, the same everywhere."""

from __future__ import annotations

from paictl.cluster.values import ClusterError, ConflictError
from paictl.i18n import text


def no_version(number: int | None, newest: int) -> ClusterError:
    """The error for a version that is not there; `newest` is 0 where there is none at all."""
    if not newest:
        return ClusterError("no configuration has been pushed yet", hint="paictl config push -p DIR")
    return ClusterError(
        text("no version {number}", number=number),
        hint=text("the newest is {newest}; see: paictl config history", newest=newest),
    )


def moved_on(newest: int) -> ConflictError:
    """The error for a push that was made from another version than the newest."""
    now = f"its newest version is {newest}" if newest else "all versions are gone"
    return ConflictError(
        text("the configuration has changed since: {now}", now=now), hint="review the change, then push again"
    )


def account_there(name: str) -> ConflictError:
    """The error for an account that is to be made and is there."""
    return ConflictError(text("user {name!r} already exists", name=name), hint="list them with: paictl user list")


def account_changed(name: str) -> ConflictError:
    """The error for an account that is not any more as it was read."""
    return ConflictError(
        text("user {name!r} has been changed since", name=name), hint="check the account, then try again"
    )
