"""What a job asks against what a node and a promise give."""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, WARNING, Bundle, Finding, Findings, rule
from paictl.config.models.job import JobRole
from paictl.config.models.job_demand import Submission, submissions
from paictl.i18n import joined, text
from paictl.workload.feasible import Cause, Refusal


@rule("XRF954", "job-pod-too-large", ERROR)
def job_pod_size(bundle: Bundle) -> Findings:
    """One pod of a job needs more devices than a node gives it.

    Why: it is not checked at submission, and the pod waits forever. CPU cores and memory count too: as the number
    of devices that they come with (`skuTypes`).

    Passes::

        # hivedscheduler.yaml
        physicalCluster:
          skuTypes:
            V100: {gpu: 1, cpu: 8, memory: 65536Mi}
            T4: {gpu: 1, cpu: 4, memory: 32768Mi}
          cellTypes:
            V100-NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
            V100-POOL: {childCellType: V100-NODE, childCellNumber: 3}
            T4-NODE: {childCellType: T4, childCellNumber: 2, isNodeLevel: true}
          physicalCells:
          - cellType: V100-POOL
            cellChildren:
            - {cellAddress: v1}
            - {cellAddress: v2}
            - {cellAddress: v3, pinnedCellId: box}
          - {cellType: T4-NODE, cellAddress: t1}
        virtualClusters:
          vision:
            virtualCells:
            - {cellType: V100-POOL.V100-NODE, cellNumber: 2}
            pinnedCells:
            - {pinnedCellId: box}
          default:
            virtualCells:
            - {cellType: T4-NODE, cellNumber: 1}

        # job.yaml
        protocolVersion: 2
        name: mnist
        type: job
        prerequisites:
        - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        taskRoles:
          train:
            dockerImage: image
            resourcePerInstance: {cpu: 32, memoryMB: 8192, gpu: 4}
            commands: [python3 train.py]
        defaults: {virtualCluster: vision}
        extras:
          hivedScheduler:
            taskRoles:
              train: {skuType: V100}

    Fails with::

        # job.yaml
        -    resourcePerInstance: {cpu: 32, memoryMB: 8192, gpu: 4}
        +    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 8}
    """
    # Every role whose pod fits into no promise of the VC (opportunistic: no node of the cluster).
    for submission in submissions(bundle):
        where = (
            text("the cluster")
            if submission.job.opportunistic
            else text("virtual cluster {vc!r}", vc=submission.vc_name)
        )
        for refusal in submission.refusals():
            if refusal.cause is not Cause.POD_TOO_LARGE:
                continue
            need = refusal.shortages[0].needed
            room = max(shortage.available for shortage in refusal.shortages)
            for role in (submission.job.roles[name] for name in refusal.roles):
                message = text(
                    "a pod of task role {role!r} needs {need} devices, but the largest in {where} has {room}",
                    role=role.name,
                    need=need,
                    where=where,
                    room=room,
                )
                at = role.node.key("resourcePerInstance") or role.key
                yield Finding(
                    at,
                    message,
                    text("ask for no more than {room} devices, or spread the work over instances", room=room),
                )


_HINT = "ask for less, or set extras.gangAllocation to false if the tasks can start one by one"


@rule("XRF955", "job-gang-too-large", ERROR)
def job_gang_size(bundle: Bundle) -> Findings:
    """A gang needs more devices than its virtual cluster is promised.

    Why: a gang runs within the quota, or, as `oppo`, outside it. The server compares its devices with the quota only
    while HiveD answers, and never checks whether its pods fit into whole nodes. The gang waits forever.

    Passes::

        # hivedscheduler.yaml
        physicalCluster:
          skuTypes:
            V100: {gpu: 1, cpu: 8, memory: 65536Mi}
            T4: {gpu: 1, cpu: 4, memory: 32768Mi}
          cellTypes:
            V100-NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
            V100-POOL: {childCellType: V100-NODE, childCellNumber: 3}
            T4-NODE: {childCellType: T4, childCellNumber: 2, isNodeLevel: true}
          physicalCells:
          - cellType: V100-POOL
            cellChildren:
            - {cellAddress: v1}
            - {cellAddress: v2}
            - {cellAddress: v3, pinnedCellId: box}
          - {cellType: T4-NODE, cellAddress: t1}
        virtualClusters:
          vision:
            virtualCells:
            - {cellType: V100-POOL.V100-NODE, cellNumber: 2}
            pinnedCells:
            - {pinnedCellId: box}
          default:
            virtualCells:
            - {cellType: T4-NODE, cellNumber: 1}

        # job.yaml
        protocolVersion: 2
        name: mnist
        type: job
        prerequisites:
        - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        taskRoles:
          train:
            instances: 2
            dockerImage: image
            resourcePerInstance: {cpu: 32, memoryMB: 8192, gpu: 4}
            commands: [python3 train.py]
        defaults: {virtualCluster: vision}

    Fails with::

        # job.yaml
        -    instances: 2
        +    instances: 3
        @@
        -    resourcePerInstance: {cpu: 32, memoryMB: 8192, gpu: 4}
        +    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 3}
    """
    # Every group of pods, and every gang of groups, that is too large or does not fit into the nodes of the VC.
    for submission in submissions(bundle):
        many = submission.too_many()
        if many is not None:
            role, error = many
            yield Finding(role.node.scalar("instances") or role.key, error.message, error.hint)
        for refusal in submission.refusals():
            if refusal.cause is not Cause.POD_TOO_LARGE:
                first = submission.job.roles[refusal.roles[0]]
                yield Finding(first.node.key("instances") or first.key, _message(submission, refusal), _HINT)


def _message(submission: Submission, refusal: Refusal) -> str:
    names = joined(" and ", map(repr, refusal.roles))
    best = max(refusal.shortages, key=lambda shortage: shortage.available)
    owner = text("the cluster") if submission.job.opportunistic else repr(submission.vc_name)
    if refusal.cause is Cause.DOES_NOT_PACK:
        return text(
            "the gang of {names} needs {needed} devices, but not all of its pods fit into the nodes of {owner}",
            names=names,
            needed=best.needed,
            owner=owner,
        )
    room = (
        text("{available} in one chain", available=best.available)
        if len(refusal.shortages) > 1
        else f"{best.available}"
    )
    return text(
        "the gang of {names} needs {needed} devices, but {owner} is promised only {room}",
        names=names,
        needed=best.needed,
        owner=owner,
        room=room,
    )


_KEYS = {"gpu": "gpu", "cpu": "cpu", "memory": "memoryMB"}


@rule("XRF956", "job-sku-without-resource", ERROR)
def job_no_gpu(bundle: Bundle) -> Findings:
    """A job requests GPUs or cores that none of its possible devices comes with.

    Why: such a job never finds a place. Without `skuType` OpenPAI's server calculates with the smallest of all types of
    the virtual cluster: one CPU type makes that 0 GPUs, and it refuses every job with a GPU (a warning: paictl accepts
    such a job).

    Passes::

        # hivedscheduler.yaml
        physicalCluster:
          skuTypes:
            V100: {gpu: 1, cpu: 8, memory: 65536Mi}
            CPU: {gpu: 0, cpu: 1, memory: 4096Mi}
          cellTypes:
            V100-NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
            V100-POOL: {childCellType: V100-NODE, childCellNumber: 3}
            CPU-NODE: {childCellType: CPU, childCellNumber: 16, isNodeLevel: true}
          physicalCells:
          - cellType: V100-POOL
            cellChildren:
            - {cellAddress: v1}
            - {cellAddress: v2}
            - {cellAddress: v3, pinnedCellId: box}
          - {cellType: CPU-NODE, cellAddress: c1}
        virtualClusters:
          vision:
            virtualCells:
            - {cellType: V100-POOL.V100-NODE, cellNumber: 2}
            pinnedCells:
            - {pinnedCellId: box}
          default:
            virtualCells:
            - {cellType: CPU-NODE, cellNumber: 1}

        # job.yaml
        protocolVersion: 2
        name: mnist
        type: job
        prerequisites:
        - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        taskRoles:
          train:
            dockerImage: image
            resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 0}
            commands: [python3 train.py]
        defaults: {virtualCluster: default}

    Fails with::

        # job.yaml
        -    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 0}
        +    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
    """
    # Every amount of what no leaf cell that the role may get brings; a warning where only some of them do.
    for submission in submissions(bundle):
        misfits = {id(role): error.path.rpartition(".")[2] for role, error in submission.misfits()}
        for role in submission.job.roles.values():
            if id(role) in misfits:
                which = (
                    text("type {sku!r}", sku=role.sku.text)
                    if role.sku
                    else text("every type of {vc!r}", vc=submission.vc_name)
                )
                yield from _finding(role, misfits[id(role)], text("{which} comes with none", which=which))
            else:
                yield from _mixed(submission, role)


def _finding(role: JobRole, key: str, why: str) -> Findings:
    asked = role.resources.scalar(key)
    if key in _KEYS.values() and asked is not None:
        message = text("task role {role!r} asks for {key}, but {why}", role=role.name, key=key, why=why)
        yield Finding(asked, message, text("name a skuType with {key} in extras.hivedScheduler.taskRoles", key=key))


def _mixed(submission: Submission, role: JobRole) -> Findings:
    for resource in submission.lacking_somewhere(role):
        why = text("some type of {vc!r} comes with none, so OpenPAI refuses the job", vc=submission.vc_name)
        for finding in _finding(role, _KEYS[resource], why):
            yield Finding(finding.at, finding.message, finding.hint, severity=WARNING)
