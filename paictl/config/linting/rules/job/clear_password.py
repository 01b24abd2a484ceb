"""The password of an image registry stands in the job in clear.

Why: everybody who may see the job sees its file. Values of `secrets` are kept apart and masked.

Passes::

    # job.yaml
    secrets: {registry: opensesame}
    protocolVersion: 2
    name: mnist
    type: job
    prerequisites:
    - name: image
      type: dockerimage
      uri: registry.internal/team/pytorch
      auth: {username: me, password: <% $secrets.registry %>}
    taskRoles:
      train:
        dockerImage: image
        resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
        commands: [python3 train.py]

Fails with::

    # job.yaml
    -secrets: {registry: opensesame}
    @@
    -  auth: {username: me, password: <% $secrets.registry %>}
    +  auth: {username: me, password: opensesame}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.job import job_of


@rule("JOB617", "clear-password", WARNING)
def check(document: Document) -> Findings:
    """Every password of a registry that is no template."""
    for one in job_of(document).prerequisites:
        password = one.node.mapping("auth").scalar("password")
        if password is not None and password.text.strip() and "<%" not in password.text:
            message = f"the registry password of {one.name.text!r} stands here in clear"
            yield Finding(password, message, "move it to secrets and write <% $secrets.name %> here")
