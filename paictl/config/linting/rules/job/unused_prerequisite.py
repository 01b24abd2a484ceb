"""No task role uses a prerequisite.

Why: it costs nothing, but often a reference was forgotten.

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
     - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
    +- {name: cifar, type: data, uri: [https://example.com/cifar.tar.gz]}
"""

from __future__ import annotations

from paictl.config.linting.rule import INFO, Document, Finding, Findings, rule
from paictl.config.models.job import REFERENCES, job_of


@rule("JOB624", "unused-prerequisite", INFO)
def check(document: Document) -> Findings:
    """Every prerequisite that nothing names, unless a reference of its type is wrong: it may have meant this one."""
    job = job_of(document)
    used = {name.text for one in job.prerequisites for name in one.node.sequence("require").scalars()}
    for role in job.roles.values():
        used.update(name.text for name in role.node.sequence("prerequisites").scalars())
    for key, kind in REFERENCES.items():
        names = {name.text for role in job.roles.values() if (name := role.node.text(key))}
        there = {one.name.text: one for one in job.prerequisites if one.type == kind}
        if names - there.keys() or used - job.named.keys():
            continue
        for word, one in there.items():
            if word not in names | used:
                hint = f"write {key}: {word} in a task role, or remove it"
                yield Finding(one.name, f"no task role uses the prerequisite {word!r}", hint)
