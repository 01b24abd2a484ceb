"""What people look back at, as it is stored: events and versions of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from paictl.cluster.interface import ConfigVersion, Event, EventKind
from paictl.frozen import frozen
from paictl.units import Millis, instant


@frozen
class Happened:
    """Something that happened, as `interface.Event`, at an instant of the cluster's clock."""

    number: int
    at: Millis
    kind: EventKind
    subject: str
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def event(self, epoch: datetime) -> Event:
        """The same with its date."""
        when = instant(epoch, self.at)
        return Event(self.number, when, self.kind, self.subject, self.message, self.data)


@frozen
class Pushed:
    """A version of the configuration, as `interface.ConfigVersion`, at an instant of the cluster's clock."""

    number: int
    at: Millis
    message: str
    files: Mapping[str, str]

    def version(self, epoch: datetime) -> ConfigVersion:
        """The same with its date."""
        return ConfigVersion(self.number, instant(epoch, self.at), self.message, self.files)
