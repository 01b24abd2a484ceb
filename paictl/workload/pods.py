"""From a job to its affinity groups, and from these to pods with the scheduling spec that HiveD reads from each.

A plan says what all tasks of a role have in common: whether a job may run, and what Kubernetes is asked for it, follow
from that. Pods are made of it where each is placed.

Source: OpenPAI's rest-server (`middlewares/v2/hived.js`, `models/v2/job/k8s.js`). See `paictl.workload.sku` for
what differs in the arithmetic; pod names are readable instead of an MD5 digest, and a name that OpenPAI would let
collide is refused.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.scheduler.request import Member, PodRequest
from paictl.scheduler.wire import pod_name, request_json
from paictl.workload.fields import JobError
from paictl.workload.sku import decisive, leaf_number
from paictl.workload.terms import agree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from paictl.workload.job import Job, TaskRole
    from paictl.workload.supply import Supply
    from paictl.workload.terms import Terms

NAMESPACE: Final = "default"
"""Kubernetes namespace of all job pods."""
DEFAULT_GROUP: Final = "default"
"""Name of the group that holds a gang whose roles name none."""

ROUNDS: Final = 10
"""Tasks that a job may have for each leaf cell of the cluster: most of them can only wait for the others to end."""
LEAST_TASKS: Final = 1_000
"""Tasks that a job may have on the smallest cluster."""
LONGEST_GROUP: Final = 255
"""Characters of the name of an affinity group, as many as a job's own name may have."""

_UIDS: Final = uuid.UUID("6f1d0f1e-3c56-5d0c-9a0e-5b8f0a8f6f52")
_USER = re.compile(r"[\w.-]{1,64}", re.ASCII)
_MAX_LABEL: Final = 63


@frozen
class GroupPlan:
    """One affinity group: pods that are placed all or none. `members` are leaf cells and pods, ascending."""

    name: str
    members: tuple[Member, ...]
    leaf_type: str
    """Leaf cell type that the pods are confined to, empty for any of the VC."""
    pinned_id: str
    lazy_preemption: bool
    ignore_suggested: bool
    single: bool
    """Whether the group is one pod that was not grouped with others."""
    repair: bool = False
    """Whether a lost member gets another place while the others keep theirs."""

    @property
    def leaves(self) -> int:
        """Leaf cells of the whole group."""
        return sum(leaves * pods for leaves, pods in self.members)


@frozen
class Pod:
    """One task as a pod. `incarnation` counts its restarts; the uid differs for each, the name does not."""

    name: str
    uid: str
    role: str
    index: int
    leaf_number: int
    group: GroupPlan
    incarnation: int = 0

    def restarted(self, incarnation: int) -> Pod:
        """The same task's pod after `incarnation` restarts."""
        if incarnation == self.incarnation:  # of most tasks that wait, which each command asks about
            return self
        return replace(self, uid=_uid(self.name, incarnation), incarnation=incarnation)


@frozen
class RolePlan:
    """The tasks of one role, which are alike."""

    name: str
    tasks: int
    leaf_number: int
    """Leaf cells of each."""
    stem: str
    """Names of their pods, without the index."""
    group: GroupPlan
    """The group of all, or of the first one if each is a group of its own."""

    def pod(self, index: int = 0) -> Pod:
        """One of its tasks as a pod."""
        name = f"{self.stem}-{index}"
        own = self.group.single and index
        group = replace(self.group, name=f"{NAMESPACE}/{name}") if own else self.group
        return Pod(name, _uid(name, 0), self.name, index, self.leaf_number, group)


@frozen
class JobPlan:
    """What a cluster is asked for a job of a user: groups by the job's roles, in the order of the file."""

    job: Job
    user: str
    roles: tuple[RolePlan, ...]

    @property
    def key(self) -> str:
        """``user~name``, as a cluster knows the job."""
        return f"{self.user}~{self.job.name}"

    @property
    def tasks(self) -> int:
        """How many there are."""
        return sum(role.tasks for role in self.roles)

    @property
    def groups(self) -> Collection[tuple[GroupPlan, int]]:
        """Each group once with how many there are like it: of pods that are groups of their own only the first."""
        return {role.group.name: (role.group, role.tasks if role.group.single else 1) for role in self.roles}.values()

    @property
    def devices(self) -> int:
        """Leaf cells of all tasks together."""
        return sum(role.leaf_number * role.tasks for role in self.roles)

    def pods(self) -> tuple[Pod, ...]:
        """All pods, in the order of the file, then by index."""
        return tuple(role.pod(index) for role in self.roles for index in range(role.tasks))

    def spec(self, pod: Pod) -> dict[str, object]:
        """The pod's scheduling spec under HiveD's keys, as its annotation holds it."""
        return request_json(self.request(pod))

    def request(self, pod: Pod) -> PodRequest:
        """The pod as the scheduler core takes it."""
        group = pod.group
        return PodRequest(
            uid=pod.uid,
            name=pod_name(NAMESPACE, pod.name),
            vc=self.job.vc,
            priority=self.job.priority,
            leaf_number=pod.leaf_number,
            group=group.name,
            members=group.members,
            leaf_type=group.leaf_type,
            pinned_id=group.pinned_id,
            lazy_preemption=group.lazy_preemption,
            ignore_suggested=group.ignore_suggested,
            repair=group.repair,
        )


def plan_job(job: Job, supply: Supply, user: str) -> JobPlan:
    """The groups of a job that `user` submits to a cluster.

    Whether they can ever run is `paictl.workload.feasible`'s business. Raises `JobError` naming the field for a VC, SKU
    or pinned cell that is not there for the job, roles that cannot share a group, and names that collide.
    """
    if not _USER.fullmatch(user):
        raise JobError("user", text("{user!r} must be 1 to 64 letters, digits, _, . and -", user=user))
    supply.vc(job.vc)
    check_number(job, supply)
    stems = _stems(user, job)
    plans: dict[str, RolePlan] = {}
    for name, roles in _grouping(job):
        terms = agree(job, supply, roles)
        numbers = {role.name: leaf_number(terms.unit, role.resources) for role in roles}
        shared = None
        if name is not None:
            shared = _group(f"{user}~{job.name}/{name}", _members(roles, numbers), terms, repair=job.repairs)
        for role in roles:
            number, stem = numbers[role.name], stems[role.name]
            group = shared or _group(f"{NAMESPACE}/{stem}-0", ((number, 1),), terms, single=True)
            plans[role.name] = RolePlan(role.name, role.instances, number, stem, group)
    return JobPlan(job, user, tuple(plans[role.name] for role in job.roles))


def why_so_many_cells(job: Job, supply: Supply, names: Collection[str]) -> str:
    """Why a task of one of some roles needs more leaf cells than devices: a sentence, empty if none of them does.

    CPUs and memory count, too, as in OpenPAI: a task has the whole of its cells, and shares none with another.
    """
    for _, roles in _grouping(job):
        unit = agree(job, supply, roles).unit
        for role in roles:
            what = decisive(unit, role.resources) if role.name in names else None
            if what is not None:
                return text(
                    "a task of {role} asks for {amount} {field}, and a leaf cell has {unit}: that is {cells} leaf "
                    "cells",
                    role=role.name,
                    amount=getattr(role.resources, what),
                    field="memoryMB" if what == "memory" else what,
                    unit=f"{float(getattr(unit, what)):g}",
                    cells=leaf_number(unit, role.resources),
                )
    return ""


def short_name(name: str) -> str:
    """A pod or a group as people call it: without the namespace of all job pods, and the group that every gang has."""
    first, _, rest = name.partition("/")
    if first == NAMESPACE:
        return rest
    return first if rest == DEFAULT_GROUP else name


def check_number(job: Job, supply: Supply) -> None:
    """Refuse a job with more tasks than a cluster works off in `ROUNDS` rounds, before a pod is made of each.

    Raises `JobError` naming the instances of the largest role.
    """
    leaves = sum(view.leaves for view in supply.chains)
    most = max(LEAST_TASKS, ROUNDS * leaves)
    tasks = sum(role.instances for role in job.roles)
    if tasks > most:
        role = max(job.roles, key=lambda role: role.instances)
        message = text(
            "the job has {tasks:,} tasks, on a cluster of {leaves:,} leaf cells it may have {most:,}",
            tasks=tasks,
            leaves=leaves,
            most=most,
        )
        raise JobError(f"taskRoles.{role.name}.instances", message, hint="use fewer instances, or several jobs")


def _grouping(job: Job) -> Iterator[tuple[str | None, tuple[TaskRole, ...]]]:
    """Roles by the name of their group; without a name each pod of the role is a group of its own."""
    named: dict[str, list[TaskRole]] = {}
    for role in job.roles:
        if role.wishes.affinity_group is not None:
            _check_group_name(role)
            named.setdefault(role.wishes.affinity_group, []).append(role)
    if not named and job.gang:
        yield DEFAULT_GROUP, job.roles
        return
    for name, roles in named.items():
        yield name, tuple(roles)
    for role in job.roles:
        if role.wishes.affinity_group is None:
            yield None, (role,)


def _check_group_name(role: TaskRole) -> None:
    """Raise `JobError` for a long name: each pod of the group has it."""
    size = len(role.wishes.affinity_group or "")
    if size > LONGEST_GROUP:
        raise JobError(
            f"extras.hivedScheduler.taskRoles.{role.name}.affinityGroupName",
            text("has {size:,} characters, at most {most} are allowed", size=size, most=LONGEST_GROUP),
        )


def _group(
    name: str, members: tuple[Member, ...], terms: Terms, *, single: bool = False, repair: bool = False
) -> GroupPlan:
    return GroupPlan(
        name=name,
        members=members,
        leaf_type=terms.leaf_type,
        pinned_id=terms.pinned_id,
        lazy_preemption=terms.lazy_preemption,
        ignore_suggested=terms.ignore_suggested,
        single=single,
        repair=repair,
    )


def _members(roles: Sequence[TaskRole], numbers: dict[str, int]) -> tuple[Member, ...]:
    """Pods by number of leaf cells, ascending, each number once (as the scheduler merges them)."""
    pods: dict[int, int] = {}
    for role in roles:
        pods[numbers[role.name]] = pods.get(numbers[role.name], 0) + role.instances
    return tuple(sorted(pods.items()))


def _stems(user: str, job: Job) -> dict[str, str]:
    """Names of the pods by role, without the index: job, digest of user and job, role; a DNS subdomain.

    The digest keeps jobs apart whose names differ only in what is not allowed in such a name.
    """
    prefix = pod_prefix(user, job.name)
    stems: dict[str, str] = {}
    first: dict[str, str] = {}
    for role in job.roles:
        label = re.sub(r"[^a-z0-9]", "", role.name.lower())
        path = f"taskRoles.{role.name}"
        if not 1 <= len(label) <= _MAX_LABEL:
            raise JobError(
                path,
                text(
                    "in pod names it becomes {label!r}, which must have 1 to {most} characters",
                    label=label,
                    most=_MAX_LABEL,
                ),
            )
        if label in first:
            message = text("in pod names it becomes {label}, and so does {other}", label=label, other=first[label])
            raise JobError(path, message, hint="choose names that differ in letters and digits, not only in case and _")
        first[label] = role.name
        stems[role.name] = f"{prefix}{label}"
    return stems


def pod_prefix(user: str, job: str) -> str:
    """What the names of all pods of a job begin with, and of no other job's."""
    digest = hashlib.sha256(f"{user}~{job}".encode()).hexdigest()[:8]
    slug = re.sub(r"[^a-z0-9]+", "-", job.lower()).strip("-")[:_MAX_LABEL].strip("-")
    return f"{slug}-{digest}-" if slug else f"job-{digest}-"


def _uid(pod: str, incarnation: int) -> str:
    return str(uuid.uuid5(_UIDS, f"{pod}/{incarnation}"))
