"""The commands of a job are too large once their templates are filled in.

Why: a short file can name a long value a thousand times. The commands reach the pods in a Secret, and Kubernetes
refuses one of more than 1 MiB; until then every server that reads the job has to hold all of it in memory.

Passes::

    # job.yaml
    protocolVersion: 2
    name: mnist
    type: job
    parameters: {a: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx}
    prerequisites:
    - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
    taskRoles:
      train: &role
        dockerImage: image
        resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
        commands:
        - &run <%$parameters.a%><%$parameters.a%><%$parameters.a%><%$parameters.a%><%$parameters.a%>
          <%$parameters.a%><%$parameters.a%><%$parameters.a%><%$parameters.a%><%$parameters.a%>
          <%$parameters.a%><%$parameters.a%><%$parameters.a%><%$parameters.a%><%$parameters.a%>
          <%$parameters.a%><%$parameters.a%><%$parameters.a%><%$parameters.a%><%$parameters.a%>

Fails with::

    # job.yaml
           <%$parameters.a%><%$parameters.a%><%$parameters.a%><%$parameters.a%><%$parameters.a%>
           <%$parameters.a%><%$parameters.a%><%$parameters.a%><%$parameters.a%><%$parameters.a%>
           <%$parameters.a%><%$parameters.a%><%$parameters.a%><%$parameters.a%><%$parameters.a%>
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +    - *run
    +  r2: *role
    +  r3: *role
    +  r4: *role
    +  r5: *role
    +  r6: *role
    +  r7: *role
    +  r8: *role
    +  r9: *role
    +  r10: *role
    +  r11: *role
    +  r12: *role
    +  r13: *role
    +  r14: *role
    +  r15: *role
    +  r16: *role
    +  r17: *role
    +  r18: *role
    +  r19: *role
    +  r20: *role
    +  r21: *role
    +  r22: *role
    +  r23: *role
    +  r24: *role
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.job import JobRole, JobSpec, RoleCommand, job_of
from paictl.config.reading.nodes import MappingNode, ScalarNode, to_data
from paictl.workload.template import MOST_EXPANDED, Values

_OF_ROLE = ("script", "output", "data")


@rule("JOB629", "large-commands", ERROR)
def check(document: Document) -> Findings:
    """The command, or the password of an image, at which the job becomes too large."""
    job = job_of(document)
    data = document.data if isinstance(document.data, Mapping) else {}
    shared = {key: data.get(key) for key in ("parameters", "secrets")}
    room = MOST_EXPANDED
    for command in _run(job):
        values = Values({**shared, **_prerequisites(job, job.roles.get(command.role))})
        room -= values.size(command.text.text)
        if room < 0:
            yield _finding("the commands of the job have", command.text)
            return
    for image in job.prerequisites:
        password = image.node.mapping("auth").text("password")
        if password is not None and Values(shared).size(password.text) > MOST_EXPANDED:
            yield _finding("this password has", password)


def _finding(subject: str, at: ScalarNode) -> Finding:
    message = f"with templates filled in, {subject} more than {MOST_EXPANDED:,} bytes"
    return Finding(at, message, "keep long values in the image or in storage, and use each template once")


def _run(job: JobSpec) -> Iterator[RoleCommand]:
    """The commands that are run: those of roles, and of the deployment that the job chooses."""
    chosen = job.top.mapping("defaults").text("deployment")
    yield from job.role_commands()
    for name, deployment in job.deployments:
        if chosen is not None and name.text == chosen.text:
            yield from (command for command in job.commands_around(deployment) if command.role in job.roles)


def _prerequisites(job: JobSpec, role: JobRole | None) -> dict[str, object]:
    """What a role's `$script`, `$output` and `$data` name."""
    values: dict[str, object] = {}
    for key in _OF_ROLE if role is not None else ():
        name = role.node.text(key) if role is not None else None
        found = None if name is None else job.prerequisite(key, name.text)
        if found is not None and isinstance(found.node, MappingNode):
            values[key] = to_data(found.node)
    return values
