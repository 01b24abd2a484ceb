"""Jobs that are not taken because of the section `sharing`: a budget that refuses, a gang beyond its user's limit."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from paictl.cluster.values import ClusterError
from paictl.i18n import text
from paictl.workload.budgets import OverBudget, Used

if TYPE_CHECKING:
    from paictl.workload.pods import JobPlan
    from paictl.workload.sharing import Sharing


def refuse_held(rules: Sharing, plan: JobPlan, user: str, used: Used, now: datetime) -> None:
    """Raise `ClusterError` for a job that may not be submitted now.

    `used` are device-milliseconds of the month by (virtual cluster, user).
    """
    for state in rules.budgets.holding(plan.vc, user, used):
        if state.budget.over is OverBudget.REFUSE:
            raise ClusterError(
                text("job {job} is refused: {reason}", job=f"{user}~{plan.job}", reason=state.reason(now)),
                hint=text("ask an administrator for a larger budget; what is used: paictl usage budget list"),
            )
    most = rules.limits.of(plan.vc, user) if plan.priority >= 0 else None
    largest = max((group.leaves for group in plan.groups.values()), default=0)
    lent = rules.borrowing.devices.get(plan.vc) if plan.priority < 0 else None
    if lent is not None and largest > lent:
        raise ClusterError(
            text(
                "job {job} can never run: it needs {devices} devices at once, and virtual cluster {vc} may "
                "borrow {most}",
                job=f"{user}~{plan.job}", devices=largest, vc=plan.vc, most=lent,
            ),
            hint=text("submit it with a guarantee (--priority test), or ask an administrator for a higher limit"),
        )  # fmt: skip
    if most is not None and largest > most:
        raise ClusterError(
            text(
                "job {job} can never run: it needs {devices} devices at once, and user {user} may hold "
                "{most} guaranteed devices in virtual cluster {vc}",
                job=f"{user}~{plan.job}", devices=largest, user=user, most=most, vc=plan.vc,
            ),
            hint=text("submit it without a guarantee (--priority oppo), or ask an administrator for a higher limit"),
        )  # fmt: skip
