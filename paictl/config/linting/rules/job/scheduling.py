"""What a job asks of the scheduler: `extras.hivedScheduler`.

Passes::

    # job.yaml
    protocolVersion: 2
    name: mnist
    type: job
    prerequisites:
    - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
    taskRoles:
      train:
        dockerImage: image
        resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
        commands: [python3 train.py]
    extras:
      hivedScheduler:
        taskRoles:
          train: {skuType: V100}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, WARNING, Document, Finding, Findings, Severity, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.job import JobRole, job_of
from paictl.i18n import joined, listed, text


@rule("JOB612", "crit-priority", WARNING)
def crit_priority(document: Document) -> Findings:
    """The priority class is `crit`, which OpenPAI's own server refuses.

    Why: OpenPAI has a number for `crit` (120), but its schema only accepts prod, test and oppo. paictl accepts it.

    Passes::

        # job.yaml
        protocolVersion: 2
        name: mnist
        type: job
        prerequisites:
        - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        taskRoles:
          train:
            dockerImage: image
            resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
            commands: [python3 train.py]
        extras:
          hivedScheduler:
            jobPriorityClass: prod

    Fails with::

        # job.yaml
        -    jobPriorityClass: prod
        +    jobPriorityClass: crit
    """
    # The priority class, if it is crit.
    priority = job_of(document).hived.text("jobPriorityClass")
    if priority is not None and priority.text == "crit":
        message = "OpenPAI's server refuses the priority class crit; only paictl runs it"
        yield Finding(priority, message, "write prod, unless the job is for paictl only")


@rule("JOB613", "sku-and-pin", ERROR)
def sku_and_pin(document: Document) -> Findings:
    """A task role requests both a device type and a pinned cell.

    Why: a pinned cell has a type already; the server refuses the job.

    Passes::

        # job.yaml
        protocolVersion: 2
        name: mnist
        type: job
        prerequisites:
        - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        taskRoles:
          train:
            dockerImage: image
            resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
            commands: [python3 train.py]
        extras:
          hivedScheduler:
            taskRoles:
              train: {pinnedCellId: box}

    Fails with::

        # job.yaml
        -      train: {pinnedCellId: box}
        +      train: {skuType: V100, pinnedCellId: box}
    """
    # Every role with skuType and pinnedCellId.
    for role in job_of(document).roles.values():
        if role.sku is not None and role.pin is not None:
            message = text("task role {role!r} has both skuType and pinnedCellId", role=role.name)
            yield Finding(role.wishes.key("pinnedCellId") or role.pin, message, "remove one of the two")


@rule("JOB614", "mixed-affinity-group", ERROR)
def mixed_affinity_group(document: Document) -> Findings:
    """Task roles of one affinity group request different device types or pinned cells.

    Why: HiveD places a group as a whole, in one chain of cells; the server refuses the job.

    Passes::

        # job.yaml
        protocolVersion: 2
        name: mnist
        type: job
        prerequisites:
        - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        taskRoles:
          train:
            dockerImage: image
            resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
            commands: [python3 train.py]
          ps:
            dockerImage: image
            resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
            commands: [python3 train.py]
        extras:
          hivedScheduler:
            taskRoles:
              train: {skuType: V100, affinityGroupName: all}
              ps: {skuType: V100, affinityGroupName: all}

    Fails with::

        # job.yaml
        -      ps: {skuType: V100, affinityGroupName: all}
        +      ps: {skuType: T4, affinityGroupName: all}
    """
    # Every role whose wishes differ from those of its group's first role.
    first: dict[str, JobRole] = {}
    for role in job_of(document).roles.values():
        if role.group is None:
            continue
        leader = first.setdefault(role.group.text, role)
        if _wish(leader) != _wish(role):
            message = text(
                "{role!r} wants {wish}, but {leader!r} of the same group {other}",
                role=role.name,
                wish=_words(role),
                leader=leader.name,
                other=_words(leader),
            )
            yield Finding(role.sku or role.pin or role.group, message, "give all roles of a group the same request")


def _wish(role: JobRole) -> tuple[str | None, str | None]:
    return (role.sku.text if role.sku else None, role.pin.text if role.pin else None)


def _words(role: JobRole) -> str:
    sku, pin = _wish(role)
    words = [text("type {sku}", sku=sku)] * bool(sku) + [text("pinned cell {pin}", pin=pin)] * bool(pin)
    return joined(" and ", words) or text("no type")


@rule("JOB615", "unknown-scheduled-role", ERROR)
def unknown_scheduled_role(document: Document) -> Findings:
    """`extras.hivedScheduler` names a task role that the job does not have.

    Why: the server refuses the job.

    Fails with::

        # job.yaml
        -      train: {skuType: V100}
        +      trian: {skuType: V100}
    """
    # Every key under extras.hivedScheduler.taskRoles that is no task role.
    job = job_of(document)
    wishes = job.hived.mapping("taskRoles")
    free = [role for role in job.roles if role not in wishes]
    for entry in wishes:
        if job.roles and entry.name not in job.roles:
            message = text("extras.hivedScheduler names {entry!r}, which is not a task role", entry=entry.name)
            yield Finding(
                entry.key, message, *suggested(entry.key, free, text("name one of: {names}", names=listed(job.roles)))
            )


@rule("JOB616", "ignored-sku-number", WARNING)
def ignored_sku_number(document: Document) -> Findings:
    """The number of devices that a task role requests from HiveD is not used.

    Why: the server computes it from `resourcePerInstance` and the resources of the device type, and overwrites
    `skuNumber`; `skuNum` it does not read at all. A number equal to `gpu` changes nothing and is only mentioned.

    Fails with::

        # job.yaml
        -      train: {skuType: V100}
        +      train: {skuType: V100, skuNumber: 4}
    """
    for role in job_of(document).roles.values():
        for key in ("skuNumber", "skuNum"):
            number = role.wishes.integer(key)
            if number is not None:
                same = number == role.resources.integer("gpu")
                message = text(
                    "{key} of task role {role!r} is not used: the number follows from resourcePerInstance",
                    key=key,
                    role=role.name,
                )
                at = role.wishes.key(key) or role.key
                yield Finding(at, message, "remove it", severity=Severity.INFO if same else None)


@rule("JOB622", "role-outside-gang", WARNING)
def role_outside_gang(document: Document) -> Findings:
    """Some task roles of a gang are in affinity groups and others are not.

    Why: as soon as one role names a group, HiveD forms no group over the whole job: each task of a role without a group
    is placed alone, and runs before the others have their devices.

    Passes::

        # job.yaml
        protocolVersion: 2
        name: mnist
        type: job
        prerequisites:
        - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        taskRoles:
          train:
            dockerImage: image
            resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
            commands: [python3 train.py]
          ps:
            dockerImage: image
            resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
            commands: [python3 train.py]
        extras:
          hivedScheduler:
            taskRoles:
              train: {affinityGroupName: all}
              ps: {affinityGroupName: all}

    Fails with::

        # job.yaml
        -      ps: {affinityGroupName: all}
    """
    # Every role without a group beside roles with one, unless the job is no gang.
    job = job_of(document)
    grouped = [role for role in job.roles.values() if role.group is not None]
    if not job.gang or not grouped:
        return
    for role in job.roles.values():
        if role.group is None:
            message = text(
                "task role {role!r} is in no affinity group, so its tasks do not wait for the gang", role=role.name
            )
            group = grouped[0].group.text if grouped[0].group else ""
            yield Finding(
                role.key,
                message,
                text("give it affinityGroupName: {group}, or set gangAllocation to false", group=group),
            )


@rule("JOB623", "opportunistic-pin", ERROR)
def opportunistic_pin(document: Document) -> Findings:
    """An opportunistic job requests a pinned cell.

    Why: opportunistic jobs run outside the quota of their VC, and a pinned cell is part of it; HiveD refuses the pods.

    Passes::

        # job.yaml
        protocolVersion: 2
        name: mnist
        type: job
        prerequisites:
        - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        taskRoles:
          train:
            dockerImage: image
            resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
            commands: [python3 train.py]
        extras:
          hivedScheduler:
            jobPriorityClass: oppo
            taskRoles:
              train: {skuType: V100}

    Fails with::

        # job.yaml
        -      train: {skuType: V100}
        +      train: {pinnedCellId: box}
    """
    # Every pinnedCellId in a job of class oppo.
    job = job_of(document)
    if job.opportunistic:
        for role in job.roles.values():
            if role.pin is not None:
                message = text(
                    "task role {role!r} of an opportunistic job cannot run in pinned cell {pin!r}",
                    role=role.name,
                    pin=role.pin.text,
                )
                yield Finding(role.pin, message, "remove pinnedCellId, or write jobPriorityClass: test")


FLAGS = ("lazyPreemptionEnable", "gangReleaseEnable", "ignoreK8sSuggestedNodes")


OF_JOB = ("jobPriorityClass", *FLAGS, "taskRoles")


OF_ROLE = ("skuType", "pinnedCellId", "affinityGroupName")


@rule("JOB626", "misplaced-wish", WARNING)
def misplaced_wish(document: Document) -> Findings:
    """A key for the scheduler is in a place where it is ignored.

    Why: OpenPAI does not read `extras`, except flags such as lazyPreemptionEnable beside taskRoles, for the whole
    job. Elsewhere they silently have no effect: the job is killed when it should have kept its devices.

    Passes::

        # job.yaml
        protocolVersion: 2
        name: mnist
        type: job
        prerequisites:
        - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        taskRoles:
          train:
            dockerImage: image
            resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
            commands: [python3 train.py]
        extras:
          hivedScheduler: {lazyPreemptionEnable: true}

    Fails with::

        # job.yaml
        -  hivedScheduler: {lazyPreemptionEnable: true}
        +  lazyPreemptionEnable: true
    """
    # Every key of `extras` that means something only in `extras.hivedScheduler`, and flags of the job in a role.
    job = job_of(document)
    extras = job.top.mapping("extras")
    for key, place in [(key, "") for key in OF_JOB] + [(key, ".taskRoles.ROLE") for key in OF_ROLE]:
        at = extras.key(key)
        if at is not None:
            yield Finding(
                at,
                text("{key} has no effect in extras", key=key),
                text("move it to extras.hivedScheduler{place}", place=place),
            )
    for role in job.roles.values():
        for key in FLAGS:
            at = role.wishes.key(key)
            if at is not None:
                message = text("{key} has no effect in a task role, but for the whole job", key=key)
                yield Finding(at, message, "move it to extras.hivedScheduler, beside taskRoles")
