"""Commands and the templates in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from paictl.config.linting.rule import ERROR, WARNING, Document, Finding, Findings, Span, rule
from paictl.config.models.job import JobRole, JobSpec, RoleCommand, job_of
from paictl.config.reading.nested import embedded_source
from paictl.config.reading.nodes import MappingNode, ScalarNode, follow, to_data
from paictl.i18n import text
from paictl.suggestions import nearest
from paictl.workload.template import MOST_EXPANDED, Values

_ROOTS = ("parameters", "secrets", "script", "output", "data")


_TEMPLATE = re.compile(r"<%((?:(?!<%|%>).)*)(?:%>)?", re.DOTALL)


_STEP = re.compile(r"[^.\[\]\s]+")


@rule("JOB606", "unresolved-template", ERROR)
def unresolved_template(document: Document) -> Findings:
    """A template `<% … %>` names something that the job does not define.

    Why: nothing reports it: the shell gets the template as it stands, or nothing in its place. Commands can use
    `$parameters`, `$secrets`, and the `$script`, `$output` and `$data` of their task role; credentials of images can
    only use `$secrets`.

    Passes::

        # job.yaml
        parameters: {epochs: 10}
        protocolVersion: 2
        name: mnist
        type: job
        prerequisites:
        - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        taskRoles:
          train:
            dockerImage: image
            resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
            commands: [python3 train.py --epochs <% $parameters.epochs %>]

    Fails with::

        # job.yaml
        -    commands: [python3 train.py --epochs <% $parameters.epochs %>]
        +    commands: [python3 train.py --epochs <% $parameters.epoch %>]
    """
    # Every template in commands and in credentials of images that cannot be filled in.
    job = job_of(document)
    for command in job.commands():
        yield from _unresolved(job, command.text, job.roles.get(command.role), _ROOTS)
    for prerequisite in job.prerequisites:
        for entry in prerequisite.node.mapping("auth"):
            if isinstance(entry.value, ScalarNode) and isinstance(entry.value.value, str):
                yield from _unresolved(job, entry.value, None, ("secrets",))


def _unresolved(job: JobSpec, scalar: ScalarNode, role: JobRole | None, roots: tuple[str, ...]) -> Findings:
    if "<%" not in scalar.text:
        return
    source = embedded_source(scalar)
    for match in _TEMPLATE.finditer(scalar.text):
        at = Span(source, match.start(), match.end())
        if not match.group().endswith("%>"):
            yield Finding(at, "the template is not closed", "write %> after the name")
            continue
        reason = _reason(job, role, match.group(1).strip(), roots)
        if reason:
            yield Finding(
                at,
                text(
                    "the template {template} cannot be filled in: {reason}",
                    template=" ".join(match.group().split()),
                    reason=reason[0],
                ),
                reason[1],
            )


def _reason(job: JobSpec, role: JobRole | None, name: str, roots: tuple[str, ...]) -> tuple[str, str] | None:
    """What is wrong with the name in a template, and what to do; None if nothing is, or another rule says it."""
    root, *steps = _STEP.findall(name.removeprefix("$")) or [""]
    if not name.startswith("$") or root not in roots:
        choice = ", ".join(f"${root}" for root in roots)
        return text(
            "{name} is not one of {choice}", name=" ".join(name.split()) or text("an empty name"), choice=choice
        ), text("begin with one of: {choice}", choice=choice)
    if root in ("parameters", "secrets"):
        values = job.top.mapping(root)
    elif role is None:
        return None
    else:
        wanted = role.node.text(root)
        if wanted is None:
            return text("task role {role!r} has no {root}", role=role.name, root=root), text(
                "add {root}: and the name of a prerequisite of that type", root=root
            )
        prerequisite = job.prerequisite(root, wanted.text)
        if prerequisite is None:
            return None
        values = prerequisite.node
    if not steps or follow(values, tuple(_steps(steps))) is None:
        near = nearest(steps[0], values.entries) if steps else None
        path = ".".join(steps) or text("nothing")
        return text("${root} has no {path}", root=root, path=path), text(
            "did you mean {near!r}?", near=near
        ) if near else text("define it under {root}", root=root)
    return None


def _steps(steps: list[str]) -> Iterator[str | int]:
    return (int(step) if step.isdigit() and len(step) < 9 else step for step in steps)


@rule("JOB618", "blank-command", WARNING)
def blank_command(document: Document) -> Findings:
    """A command is empty.

    Why: commands are joined to one shell line; an empty one leaves an operator without its command, and the shell
    refuses the line as a whole.

    Fails with::

        # job.yaml
        -    commands: [python3 train.py]
        +    commands: [python3 train.py, ""]
    """
    # Every command that holds nothing but white space.
    for command in job_of(document).commands():
        if isinstance(command.text.value, str) and not command.text.text.strip():
            yield Finding(
                command.text,
                text("a command of {role!r} is empty", role=command.role),
                "remove it, or write : to do nothing",
            )


_OF_ROLE = ("script", "output", "data")


@rule("JOB629", "large-commands", ERROR)
def large_commands(document: Document) -> Findings:
    """The commands of a job are too large once their templates are filled in.

    Why: a short file can use a long value a thousand times. The commands reach the pods in a Secret, and Kubernetes
    refuses Secrets of more than 1 MiB. Until then, every server that reads the job must keep all of it in memory.

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
    # The command, or the password of an image, at which the job becomes too large.
    job = job_of(document)
    data = document.data if isinstance(document.data, Mapping) else {}
    shared = {key: data.get(key) for key in ("parameters", "secrets")}
    room = MOST_EXPANDED
    for command in _run(job):
        values = Values({**shared, **_prerequisites(job, job.roles.get(command.role))})
        room -= values.size(command.text.text)
        if room < 0:
            yield _finding(
                "with templates filled in, the commands of the job have more than {bytes:,} bytes", command.text
            )
            return
    for image in job.prerequisites:
        password = image.node.mapping("auth").text("password")
        if password is not None and Values(shared).size(password.text) > MOST_EXPANDED:
            yield _finding("with templates filled in, this password has more than {bytes:,} bytes", password)


def _finding(message: str, at: ScalarNode) -> Finding:
    return Finding(
        at,
        text(message, bytes=MOST_EXPANDED),
        "keep long values in the image or in storage, and use each template once",
    )


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
        prerequisite = None if name is None else job.prerequisite(key, name.text)
        if prerequisite is not None and isinstance(prerequisite.node, MappingNode):
            values[key] = to_data(prerequisite.node)
    return values
