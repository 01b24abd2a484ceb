"""Two prerequisites have the same type and name.

Why: the server refuses the job. The same name for two types is allowed.

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
    +- {name: image, type: dockerimage, uri: openpai/standard:python_3.6-cntk_2.7-gpu}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.job import Prerequisite, job_of
from paictl.config.reading.source import place_of


@rule("JOB604", "duplicate-prerequisite", ERROR)
def check(document: Document) -> Findings:
    """Every prerequisite after the first of its type and name."""
    first: dict[tuple[str, str], Prerequisite] = {}
    for one in job_of(document).prerequisites:
        if not one.known:
            continue
        earlier = first.setdefault((one.type, one.name.text), one)
        if earlier is not one:
            line = place_of(earlier.name).line
            message = f"prerequisite {one.name.text!r} of type {one.type} stands twice, first in line {line}"
            yield Finding(one.name, message, "rename or remove one of the two")
