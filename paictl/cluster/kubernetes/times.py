"""Instants as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def read_time(text: object) -> datetime | None:
    """The instant of ``2026-11-22T05:00:00Z``, with or without fractions; None for anything else."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
