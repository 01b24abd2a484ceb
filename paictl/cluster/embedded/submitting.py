"""What is refused of jobs before the world is read, and the command that submits the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paictl.cluster.admission import refuse_excess, with_account_keys, without_secrets
from paictl.cluster.embedded.commands import Submit
from paictl.cluster.interface import JobRequest, Users
from paictl.cluster.storages import Storage, refuse_extras


def submission(requests: Sequence[JobRequest], storages: Callable[[], Sequence[Storage]], users: Users) -> Submit:
    """The command that takes jobs, without the values of their secrets: they get neither into the log nor the state.

    Raises `JobError` for what a job cannot have, `ClusterError` for too much.
    """
    refuse_extras(requests, storages)
    with_account_keys(requests, users)  # nobody is let in here, but the same jobs are refused
    refuse_excess(requests)
    return Submit(tuple(map(without_secrets, requests)))
