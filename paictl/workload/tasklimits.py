"""How many tasks of one user may wait or run at a time: the list `task-limits` in the section `sharing`.

A task costs a cluster a pod, and perhaps a port of every node, whether it has devices or not. Asked once, when jobs are
submitted; nothing that was taken is stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from paictl.i18n import Text, text
from paictl.workload.budgets import EACH

if TYPE_CHECKING:
    from paictl.workload.pods import JobPlan


class TaskLimits:
    """Tasks by user, of jobs that have not ended, in all virtual clusters together; `*`: each user without an entry."""

    def __init__(self, limits: Mapping[str, int] | None = None) -> None:
        self.limits = dict(limits or {})

    def __bool__(self) -> bool:
        return bool(self.limits)

    def of(self, user: str) -> int | None:
        """What a user may have; None for any number."""
        return self.limits.get(user, self.limits.get(EACH))

    def refusal(self, user: str, held: int, more: int) -> Text | None:
        """Why `more` tasks of a user who has `held` are not taken; None if they are."""
        most = self.of(user)
        if most is None or held + more <= most:
            return None
        return text(
            "tasks of user {user} are limited to {most:,}: {held:,} in jobs that have not ended, "
            "{more:,} more requested",
            user=user,
            held=held,
            more=more,
            most=most,
        )


def tasks_by_user(plans: Iterable[JobPlan]) -> Counter[str]:
    """How many tasks jobs have, by user."""
    tasks: Counter[str] = Counter()
    for plan in plans:
        tasks[plan.user] += plan.tasks
    return tasks
