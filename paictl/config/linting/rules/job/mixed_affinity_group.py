"""Task roles of one affinity group want different device types or pinned cells.

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

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.job import JobRole, job_of


@rule("JOB614", "mixed-affinity-group", ERROR)
def check(document: Document) -> Findings:
    """Every role whose wishes differ from those of its group's first role."""
    first: dict[str, JobRole] = {}
    for role in job_of(document).roles.values():
        if role.group is None:
            continue
        leader = first.setdefault(role.group.text, role)
        if _wish(leader) != _wish(role):
            message = f"{role.name!r} wants {_words(role)}, but {leader.name!r} of the same group {_words(leader)}"
            yield Finding(role.sku or role.pin or role.group, message, "give all roles of a group the same wish")


def _wish(role: JobRole) -> tuple[str | None, str | None]:
    return (role.sku.text if role.sku else None, role.pin.text if role.pin else None)


def _words(role: JobRole) -> str:
    sku, pin = _wish(role)
    return " and ".join([f"type {sku}"] * bool(sku) + [f"pinned cell {pin}"] * bool(pin)) or "no type"
