"""A runtime plugin is meant for a task role that the job does not have.

Why: the runtime compares names and passes over the plugin without a word.

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
      com.microsoft.pai.runtimeplugin:
      - plugin: ssh  # paictl: ignore=JOB630
        parameters: {jobssh: true}
        taskRoles: [train]

Fails with::

    # job.yaml
    -    taskRoles: [train]
    +    taskRoles: [trian]
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.job import job_of
from paictl.words import listed


@rule("JOB625", "unknown-plugin-role", WARNING)
def check(document: Document) -> Findings:
    """Every name under taskRoles of a plugin that is no task role."""
    job = job_of(document)
    for plugin in job.top.mapping("extras").sequence("com.microsoft.pai.runtimeplugin").mappings():
        for name in plugin.sequence("taskRoles").scalars():
            if job.roles and name.text not in job.roles:
                message = f"the plugin is meant for {name.text!r}, which is no task role"
                yield Finding(name, message, *suggested(name, job.roles, f"name one of: {listed(job.roles)}"))
