"""A template `<% … %>` names something that the job does not define.

Why: nobody reports it: the shell gets the template as it stands, or nothing in its place. Commands know `$parameters`,
`$secrets`, and the `$script`, `$output` and `$data` of their task role; credentials of images know `$secrets` only.

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

from __future__ import annotations

import re
from collections.abc import Iterator

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, Span, rule
from paictl.config.models.job import JobRole, JobSpec, job_of
from paictl.config.reading.nested import embedded_source
from paictl.config.reading.nodes import ScalarNode, follow
from paictl.words import nearest

_ROOTS = ("parameters", "secrets", "script", "output", "data")
_TEMPLATE = re.compile(r"<%((?:(?!<%|%>).)*)(?:%>)?", re.DOTALL)
_STEP = re.compile(r"[^.\[\]\s]+")


@rule("JOB606", "unresolved-template", ERROR)
def check(document: Document) -> Findings:
    """Every template in commands and in credentials of images that cannot be filled in."""
    job = job_of(document)
    for command in job.commands():
        yield from _unresolved(job, command.text, job.roles.get(command.role), _ROOTS)
    for one in job.prerequisites:
        for entry in one.node.mapping("auth"):
            if isinstance(entry.value, ScalarNode) and isinstance(entry.value.value, str):
                yield from _unresolved(job, entry.value, None, ("secrets",))


def _unresolved(job: JobSpec, text: ScalarNode, role: JobRole | None, roots: tuple[str, ...]) -> Findings:
    if "<%" not in text.text:
        return
    source = embedded_source(text)
    for match in _TEMPLATE.finditer(text.text):
        at = Span(source, match.start(), match.end())
        if not match.group().endswith("%>"):
            yield Finding(at, "the template is not closed", "write %> after the name")
            continue
        reason = _reason(job, role, match.group(1).strip(), roots)
        if reason:
            yield Finding(
                at, f"the template {' '.join(match.group().split())} cannot be filled in: {reason[0]}", reason[1]
            )


def _reason(job: JobSpec, role: JobRole | None, name: str, roots: tuple[str, ...]) -> tuple[str, str] | None:
    """What is wrong with the name in a template, and what to do; None if nothing is, or another rule says it."""
    root, *steps = _STEP.findall(name.removeprefix("$")) or [""]
    if not name.startswith("$") or root not in roots:
        choice = ", ".join(f"${known}" for known in roots)
        return f"{' '.join(name.split()) or 'an empty name'} is none of {choice}", f"begin with one of: {choice}"
    if root in ("parameters", "secrets"):
        values = job.top.mapping(root)
    elif role is None:
        return None
    else:
        wanted = role.node.text(root)
        if wanted is None:
            return f"task role {role.name!r} has no {root}", f"add {root}: and the name of a prerequisite of that type"
        found = job.prerequisite(root, wanted.text)
        if found is None:
            return None
        values = found.node
    if not steps or follow(values, tuple(_steps(steps))) is None:
        near = nearest(steps[0], values.entries) if steps else None
        path = ".".join(steps) or "nothing"
        return f"${root} has no {path}", f"did you mean {near!r}?" if near else f"define it under {root}"
    return None


def _steps(steps: list[str]) -> Iterator[str | int]:
    return (int(step) if step.isdigit() and len(step) < 9 else step for step in steps)
