"""Jobs whose tasks people reach by SSH: the keys of the user's account, and what is refused without any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paictl.cluster.values import JobRequest
from paictl.i18n import text
from paictl.workload.fields import Fields, JobError
from paictl.workload.ssh import ssh_of

if TYPE_CHECKING:
    from paictl.cluster.interface import Users


def with_account_keys(requests: Sequence[JobRequest], users: Users) -> list[JobRequest]:
    """The requests with the keys of their users' accounts where the jobs let them in.

    Raises `JobError` for a wrong parameter of the plugin, and for a user without a key in a job without one.
    """
    return list(_with_keys(requests, users))


def _with_keys(requests: Sequence[JobRequest], users: Users) -> Iterator[JobRequest]:
    for number, request in enumerate(requests):
        try:
            access = ssh_of(Fields(request.data, ""))
            if access is None or not access.people:
                yield request
                continue
            account = users.account(request.user)
            keys = account.ssh_keys if account is not None else ()
            if not keys and not access.keys:
                raise JobError(
                    access.where,
                    text("user {user} has no SSH key, so no one could sign in", user=request.user),
                    hint=text("add one: paictl user key add {user} ~/.ssh/id_ed25519.pub; or put it in "
                              "userssh.value", user=request.user),
                )  # fmt: skip
            yield replace(request, ssh_keys=keys)
        except JobError as error:
            error.request = number
            raise
