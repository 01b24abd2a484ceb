"""Instants as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def read_time(text: object) -> datetime | None:
    """The instant of ``2026-11-22T05:00:00Z``, with or without fractions; None for anything else."""
    try:
        instant = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
