"""A command is empty.

Why: commands are joined to one shell line; an empty one leaves an operator without its command, and the shell refuses
the line as a whole.

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
    -    commands: [python3 train.py]
    +    commands: [python3 train.py, ""]
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.job import job_of


@rule("JOB618", "blank-command", WARNING)
def check(document: Document) -> Findings:
    """Every command that holds nothing but white space."""
    for command in job_of(document).commands():
        if isinstance(command.text.value, str) and not command.text.text.strip():
            yield Finding(
                command.text, f"a command of {command.role!r} is empty", "remove it, or write : to do nothing"
            )
