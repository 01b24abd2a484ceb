"""A field of the job has no effect on a cluster of paictl.

Why: jobs written for OpenPAI name things that its runtime and its other services do there and nothing does here. The
job is submitted and runs without them: no SSH, no TensorBoard, no storage mounted, no mail.

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
    +extras:
    +  storages: [nfs]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.linting.rules.job.misplaced_wish import OF_JOB, OF_ROLE
from paictl.config.linting.rules.job.misspelt_extra import CUTOFF, KNOWN
from paictl.config.models.job import JobSpec, job_of
from paictl.config.reading.nodes import Entry
from paictl.words import nearest

PLUGINS: Final = "com.microsoft.pai.runtimeplugin"

_INSTEAD_OF_PLUGIN: Final = {
    "ssh": "start an SSH server in commands, on a port of resourcePerInstance.ports",
    "tensorboard": "start TensorBoard in commands, on a port of resourcePerInstance.ports",
    "teamwise_storage": "fetch data and save results in commands",
    "cmd": "put the command into commands of the task role, or preCommands of a deployment",
}
_INSTEAD_OF_EXTRA: Final = {
    "storages": "fetch data and save results in commands",
    "jobStatusChangeNotification": "remove it, and follow the job with: paictl job list",
    "retainContainers": "remove it, and save what you want to keep in commands",
}
_READ: Final = frozenset({"hivedScheduler", "gangAllocation", "submitFrom"})
"""Extras that mean something here, or that only say which program wrote the job."""


@rule("JOB630", "field-without-effect", WARNING)
def check(document: Document) -> Findings:
    """Every plugin of the runtime and every key of `extras` that nothing reads."""
    for entry in _unread(job_of(document)):
        if entry.name != PLUGINS:
            hint = _INSTEAD_OF_EXTRA.get(entry.name, "remove it, or keep it as a note of your own")
            yield Finding(entry.key, f"extras.{entry.name} has no effect here", hint)
    for plugin in job_of(document).top.mapping("extras").sequence(PLUGINS).mappings():
        name = plugin.text("plugin")
        if name is not None:
            hint = _INSTEAD_OF_PLUGIN.get(name.text, "remove it, and do in commands what it did")
            yield Finding(name, f"the runtime plugin {name.text!r} has no effect here", hint)


def _unread(job: JobSpec) -> Iterator[Entry]:
    """Keys of `extras` that nothing reads, but for those that other rules lead to the right place or spelling."""
    for entry in job.top.mapping("extras"):
        elsewhere = entry.name in (*OF_JOB, *OF_ROLE)
        if entry.name in _READ or elsewhere:
            continue
        if entry.name in KNOWN or nearest(entry.name, KNOWN, CUTOFF) is None:
            yield entry
