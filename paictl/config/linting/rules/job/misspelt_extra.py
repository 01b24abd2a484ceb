"""A key of `extras` is nearly, but not quite, one that OpenPAI reads.

Why: `extras` may hold keys of your own, so a mistyped one passes as such and its wish is lost without a word.

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
    extras: {gangAllocation: false}

Fails with::

    # job.yaml
    -extras: {gangAllocation: false}
    +extras: {gangallocation: false}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.job import job_of
from paictl.words import nearest

KNOWN = (
    "com.microsoft.pai.runtimeplugin",
    "gangAllocation",
    "hivedScheduler",
    "jobStatusChangeNotification",
    "storages",
    "submitFrom",
)
CUTOFF = 0.85
"""How much must be alike: a key of one's own is no mistake."""


@rule("JOB627", "misspelt-extra", WARNING)
def check(document: Document) -> Findings:
    """Every key of `extras` that is close to a known one."""
    for entry in job_of(document).top.mapping("extras"):
        meant = None if entry.name in KNOWN else nearest(entry.name, KNOWN, CUTOFF)
        if meant is not None:
            yield Finding(entry.key, f"extras has a key {entry.name!r}, which nobody reads", f"did you mean {meant!r}?")
