"""The first administrator, as the configuration of the REST server names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from paictl.cluster.accounts import Account
from paictl.cluster.interface import ClusterError, Configuration, Users
from paictl.config.models.services import STANDARD_NAME
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_memory
from paictl.operate.users.accounts import first_administrator

SECTION = "rest-server"
NAME, PASSWORD = "default-pai-admin-username", "default-pai-admin-password"


class BootstrapPorts(Configuration, Protocol):
    """What is needed of a cluster."""

    @property
    def users(self) -> Users:
        """Accounts."""


def bootstrap(cluster: BootstrapPorts) -> Account | None:
    """Make the administrator of the newest configuration, unless there is an administrator or nothing was pushed yet.

    The cluster has the password as a seal only, which is enough to tell whether one that is shown is right.
    """
    section = _pushed(cluster)
    name, password = section.get(NAME), section.get(PASSWORD)
    if not isinstance(name, str) or not isinstance(password, str) or not password:
        return None
    return first_administrator(cluster.users, name, password)


def named_administrator(cluster: Configuration) -> str:
    """The name that the newest configuration gives the first administrator; empty where it names none."""
    name = _pushed(cluster).get(NAME)
    return name if isinstance(name, str) else ""


def _pushed(cluster: Configuration) -> Mapping[str, object]:
    """The section of the REST server in the newest configuration; empty where nothing was pushed yet."""
    try:
        files = cluster.configuration().files
    except ClusterError:
        return {}
    return _section(files.get(STANDARD_NAME, ""))


def _section(text: str) -> Mapping[str, object]:
    """The section of the REST server; empty where there is none, or the file cannot be read."""
    for document in load_memory({STANDARD_NAME: text}, FileKind.SERVICES).documents:
        if document.kind is FileKind.SERVICES and isinstance(document.data, dict):
            found = document.data.get(SECTION)
            return found if isinstance(found, dict) else {}
    return {}
