"""A task role refers to a prerequisite that the job does not have.

Why: the server refuses the job. A name also has to be of the right type: an image under `data` is not found.

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

Fails with::

    # job.yaml
    -    dockerImage: image
    +    dockerImage: imgae
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.job import REFERENCES, JobRole, JobSpec, job_of
from paictl.config.reading.nodes import ScalarNode


@rule("JOB601", "unknown-prerequisite", ERROR)
def check(document: Document) -> Findings:
    """Every dockerImage, data, output, script and entry of prerequisites that names nothing of its type."""
    job = job_of(document)
    for role in job.roles.values():
        for key, kind in REFERENCES.items():
            name = role.node.text(key)
            if name is not None:
                yield from _missing(job, role, name, kind)
        for name in role.node.sequence("prerequisites").scalars():
            yield from _missing(job, role, name, None)


def _missing(job: JobSpec, role: JobRole, name: ScalarNode, kind: str | None) -> Findings:
    """The finding about one reference; `kind` None stands for any type."""
    same_name = job.named.get(name.text, [])
    if any(kind in (None, one.type) or not one.known for one in same_name):
        return
    wanted = f"prerequisite of type {kind}" if kind else "prerequisite"
    message = f"task role {role.name!r} refers to {name.text!r}, but there is no {wanted} of that name"
    if same_name:
        yield Finding(name, message, f"{name.text!r} is of type {same_name[0].type}: correct it, or name another one")
        return
    known = (one.name.text for one in job.prerequisites if kind in (None, one.type))
    yield Finding(name, message, *suggested(name, known, "add it to prerequisites, or name one that is there"))
