"""What every kind of cluster says about jobs alike: states, sizes, names, why one is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from paictl.cluster.values import ClusterError, ConflictError, JobState, NoJobError, TaskPlace
from paictl.i18n import counted, did_you_mean, listed, text
from paictl.suggestions import nearest
from paictl.workload.budgets import OverBudget, Used
from paictl.workload.lifecycle import RunState
from paictl.workload.tasklimits import tasks_by_user

if TYPE_CHECKING:
    from paictl.workload.pods import JobPlan
    from paictl.workload.sharing import Sharing
    from paictl.workload.tasklimits import TaskLimits


MOST_COMPARED: Final = 400
"""How many of the latest jobs a name that no job has is compared with."""

STATES: Final = {
    RunState.WAITING: JobState.WAITING,
    RunState.RUNNING: JobState.RUNNING,
    RunState.SUCCEEDED: JobState.SUCCEEDED,
    RunState.FAILED: JobState.FAILED,
    RunState.STOPPED: JobState.STOPPED,
}


def alike(sizes: Iterable[int]) -> int:
    """Devices of each pod that has some, if all of those have as many; else 0."""
    counts = set(sizes) - {0}
    return counts.pop() if len(counts) == 1 else 0


def meant_job(keys: Sequence[str], key: str) -> str:
    """A hint for a key that no job has: the same name of another user, or a name that is nearly the same."""
    user, _, name = key.partition("~")
    others = [other for other in keys if other.partition("~")[2] == name]
    if others:
        return text("did you mean {likely}?", likely=listed(others, 3))
    own = [other.partition("~")[2] for other in keys if other.startswith(f"{user}~")]
    near = nearest(name, own[-MOST_COMPARED:])  # careful: names of jobs begin alike, and job-big is not job-5
    return text("did you mean {near!r}?", near=near) if near else "list them with: paictl job list"


def no_job(keys: Sequence[str], key: str) -> NoJobError:
    """What to raise for a key that no job has."""
    return NoJobError(text("no job {key!r}", key=key), hint=meant_job(keys, key))


def name_taken(key: str) -> ConflictError:
    """What to raise for a key that an ended job has."""
    return ConflictError(text("a job {key!r} existed before", key=key), hint="give it another name: --name NAME")


def refuse_task(key: str, task: TaskPlace, known: Sequence[tuple[str, int]]) -> None:
    """Raise `ClusterError` with what comes near if a job has no such task."""
    if (task.role, task.index) in known:
        return
    roles: dict[str, int] = {}
    for role, _ in known:
        roles[role] = roles.get(role, 0) + 1
    if task.role in roles:
        hint = text("its tasks: {first} to {last}", first=f"{task.role}:0", last=f"{task.role}:{roles[task.role] - 1}")
        raise ClusterError(text("job {job} has no task {task}", job=key, task=task), hint=hint)
    hint_text = did_you_mean(task.role, roles) or text("one of: {known}", known=listed(list(roles)))
    raise ClusterError(text("job {job} has no task {task}", job=key, task=task), hint=hint_text)


def refuse_many_tasks(limits: TaskLimits, plans: Iterable[JobPlan], held: Callable[[str], int]) -> None:
    """Raise `ClusterError` if a user would have more tasks than allowed; `held` says how many one has already."""
    for user, more in tasks_by_user(plans).items() if limits else ():
        why = limits.refusal(user, held(user), more)
        if why is not None:
            hint = text("wait until some tasks have ended, stop jobs, or ask an administrator for a higher limit")
            raise ClusterError(why, hint=hint)


def refuse_held(rules: Sharing, plan: JobPlan, used: Used, now: datetime) -> None:
    """Raise `ClusterError` for a job that may not be submitted now.

    `used` are device-milliseconds of the month by (virtual cluster, user).
    """
    for state in rules.budgets.holding(plan.job.vc, plan.user, used):
        if state.budget.over is OverBudget.REFUSE:
            raise ClusterError(
                text("job {job} is refused: {reason}", job=plan.key, reason=state.reason(now)),
                hint=text("ask an administrator for a larger budget; to see what is used: paictl usage budget list"),
            )
    most = rules.limits.of(plan.job.vc, plan.user) if plan.job.priority >= 0 else None
    largest = max((group.leaves for group, _ in plan.groups), default=0)
    needed = counted("{count} device", "{count} devices", largest)
    lent = rules.borrowing.devices.get(plan.job.vc) if plan.job.priority < 0 else None
    if lent is not None and largest > lent:
        raise ClusterError(
            text(
                "job {job} can never run: it needs {devices} at once, and virtual cluster {vc} may borrow {most}",
                job=plan.key,
                devices=needed,
                vc=plan.job.vc,
                most=lent,
            ),
            hint=text("submit it with a guarantee (--priority test), or ask an administrator for a higher limit"),
        )
    if most is not None and largest > most:
        raise ClusterError(
            text(
                "job {job} can never run: it needs {devices} at once, and user {user} may hold "
                "{most} guaranteed devices in virtual cluster {vc}",
                job=plan.key,
                devices=needed,
                user=plan.user,
                most=most,
                vc=plan.job.vc,
            ),
            hint=text("submit it without a guarantee (--priority oppo), or ask an administrator for a higher limit"),
        )
