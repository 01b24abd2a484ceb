"""What every kind of cluster says about jobs in the same words: states, and names that are taken or not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paictl.cluster.values import ClusterError, ConflictError, JobState
from paictl.i18n import text
from paictl.words import did_you_mean, listed
from paictl.workload.lifecycle import RunState

MOST_COMPARED: Final = 400
"""How many of the latest jobs a name that no job has is compared with."""

STATES: Final = {
    RunState.WAITING: JobState.WAITING,
    RunState.RUNNING: JobState.RUNNING,
    RunState.SUCCEEDED: JobState.SUCCEEDED,
    RunState.FAILED: JobState.FAILED,
    RunState.STOPPED: JobState.STOPPED,
}


def meant_job(keys: Sequence[str], key: str) -> str:
    """A hint for a key that no job has: the same name of another user, or a name that is nearly the same."""
    user, _, name = key.partition("~")
    others = [other for other in keys if other.partition("~")[2] == name]
    if others:
        return f"did you mean {listed(others, 3)}?"
    own = [other.partition("~")[2] for other in keys if other.startswith(f"{user}~")]
    return did_you_mean(name, own[-MOST_COMPARED:]) or "list them with: paictl job list"


def no_job(keys: Sequence[str], key: str) -> ClusterError:
    """What to raise for a key that no job has."""
    return ClusterError(text("there is no job {key!r}", key=key), hint=meant_job(keys, key))


def name_taken(key: str) -> ConflictError:
    """What to raise for a key that an ended job has."""
    return ConflictError(text("there was a job {key!r} already", key=key), hint="give it another name: --name NAME")
