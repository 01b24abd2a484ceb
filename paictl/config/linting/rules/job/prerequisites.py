"""Prerequisites and deployments: defined once, used, and found where they are named."""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, INFO, WARNING, Document, Edit, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.job import REFERENCES, JobRole, JobSpec, Prerequisite, job_of
from paictl.config.reading.nodes import ScalarNode, SequenceNode
from paictl.config.reading.source import place_of
from paictl.i18n import listed, text


@rule("JOB601", "unknown-prerequisite", ERROR)
def unknown_prerequisite(document: Document) -> Findings:
    """A task role refers to a prerequisite that the job does not have.

    Why: the server refuses the job. A name must also be of the right type: an image under `data` is not found.

    Fails with::

        # job.yaml
        -    dockerImage: image
        +    dockerImage: imgae
    """
    # Every dockerImage, data, output, script and entry of prerequisites that names nothing of its type.
    job = job_of(document)
    for role in job.roles.values():
        for key, kind in REFERENCES.items():
            name = role.node.text(key)
            if name is not None:
                yield from _missing(job, role, name, kind)
        for name in role.node.sequence("prerequisites").scalars():
            yield from _missing(job, role, name, None)


def _missing(job: JobSpec, role: JobRole, name: ScalarNode, kind: str | None) -> Findings:
    """The finding about one reference; `kind` None stands for any type."""
    same_name = job.named.get(name.text, [])
    if any(kind in (None, prerequisite.type) or not prerequisite.known for prerequisite in same_name):
        return
    wanted = text("prerequisite of type {kind}", kind=kind) if kind else text("prerequisite")
    message = text(
        "task role {role!r} refers to {name!r}, but no {wanted} has that name",
        role=role.name,
        name=name.text,
        wanted=wanted,
    )
    if same_name:
        yield Finding(
            name,
            message,
            text("{name!r} is of type {type}: correct it, or name another one", name=name.text, type=same_name[0].type),
        )
        return
    known = (prerequisite.name.text for prerequisite in job.prerequisites if kind in (None, prerequisite.type))
    yield Finding(name, message, *suggested(name, known, "add it to prerequisites, or name one that is there"))


@rule("JOB602", "unknown-deployment", ERROR)
def unknown_deployment(document: Document) -> Findings:
    """The default deployment is not one of the job's deployments.

    Why: the server refuses the job.

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
        deployments:
        - name: quick
          taskRoles:
            train: {preCommands: [sleep 1]}
        defaults: {deployment: quick}

    Fails with::

        # job.yaml
        -defaults: {deployment: quick}
        +defaults: {deployment: quik}
    """
    # The name under defaults.deployment, if nothing bears it.
    job = job_of(document)
    wanted = job.top.mapping("defaults").text("deployment")
    names = [name.text for name, _ in job.deployments]
    if wanted is None or wanted.text in names:
        return
    otherwise = text("name one of: {names}", names=listed(names)) if names else "remove the key, or add the deployment"
    yield Finding(wanted, text("no deployment {wanted!r}", wanted=wanted.text), *suggested(wanted, names, otherwise))


@rule("JOB603", "unknown-deployment-role", WARNING)
def unknown_deployment_role(document: Document) -> Findings:
    """A deployment has commands for a task role that the job does not have.

    Why: the server silently ignores them, so the commands never run.

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
        deployments:
        - name: quick
          taskRoles:
            train: {preCommands: [sleep 1]}
        defaults: {deployment: quick}

    Fails with::

        # job.yaml
        -    train: {preCommands: [sleep 1]}
        +    trian: {preCommands: [sleep 1]}
    """
    # Every key under deployments[].taskRoles that is no task role.
    job = job_of(document)
    for name, deployment in job.deployments:
        around = deployment.mapping("taskRoles")
        free = [role for role in job.roles if role not in around]
        for entry in around:
            if job.roles and entry.name not in job.roles:
                message = text(
                    "deployment {name!r} has commands for {entry!r}, which is not a task role",
                    name=name.text,
                    entry=entry.name,
                )
                otherwise = text("name one of: {names}", names=listed(job.roles))
                yield Finding(entry.key, message, *suggested(entry.key, free, otherwise))


@rule("JOB604", "duplicate-prerequisite", ERROR)
def duplicate_prerequisite(document: Document) -> Findings:
    """Two prerequisites have the same type and name.

    Why: the server refuses the job. The same name for two types is allowed.

    Fails with::

        # job.yaml
         - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        +- {name: image, type: dockerimage, uri: openpai/standard:python_3.6-cntk_2.7-gpu}
    """
    # Every prerequisite after the first of its type and name.
    first: dict[tuple[str, str], Prerequisite] = {}
    for prerequisite in job_of(document).prerequisites:
        if not prerequisite.known:
            continue
        earlier = first.setdefault((prerequisite.type, prerequisite.name.text), prerequisite)
        if earlier is not prerequisite:
            line = place_of(earlier.name).line
            message = text(
                "prerequisite {name!r} of type {type} appears twice, first in line {line}",
                name=prerequisite.name.text,
                type=prerequisite.type,
                line=line,
            )
            yield Finding(prerequisite.name, message, "rename or remove one of the two")


@rule("JOB605", "duplicate-deployment", ERROR)
def duplicate_deployment(document: Document) -> Findings:
    """Two deployments have the same name.

    Why: the server refuses the job.

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
        deployments:
        - name: quick
          taskRoles:
            train: {preCommands: [sleep 1]}
        defaults: {deployment: quick}

    Fails with::

        # job.yaml
           taskRoles:
        +    train: {postCommands: [sleep 9]}
        +- name: quick
        +  taskRoles:
    """
    # Every deployment after the first of its name.
    first: dict[str, ScalarNode] = {}
    for name, _ in job_of(document).deployments:
        earlier = first.setdefault(name.text, name)
        if earlier is not name:
            line = place_of(earlier).line
            yield Finding(
                name,
                text("deployment {name!r} appears twice, first in line {line}", name=name.text, line=line),
                "rename one of the two",
            )


@rule("JOB621", "prerequisite-form", ERROR)
def prerequisite_form(document: Document) -> Findings:
    """A prerequisite does not have what its type needs.

    Why: an image, a script and an output have one `uri`, data has a list of them, and only images have `auth`; the
    server refuses other shapes. Newer releases let plugins do without `uri`.

    Passes::

        # job.yaml
        protocolVersion: 2
        name: mnist
        type: job
        prerequisites:
        - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        - {name: cifar, type: data, uri: [https://example.com/cifar.tar.gz]}
        taskRoles:
          train:
            data: cifar
            dockerImage: image
            resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
            commands: [python3 train.py]

    Fails with::

        # job.yaml
        -- {name: cifar, type: data, uri: [https://example.com/cifar.tar.gz]}
        +- {name: cifar, type: data, uri: https://example.com/cifar.tar.gz}
        @@
        -    data: cifar
    """
    # Every uri that is missing or of the other shape, and auth where nobody logs in.
    for prerequisite in job_of(document).prerequisites:
        if not prerequisite.known:
            continue
        name, uri = text("prerequisite {name!r}", name=prerequisite.name.text), prerequisite.node.get("uri")
        if uri is None and "plugin" not in prerequisite.node:
            yield Finding(
                prerequisite.name,
                text("{name} of type {type} lacks the key 'uri'", name=name, type=prerequisite.type),
                "add uri: where it is",
            )
        elif isinstance(uri, ScalarNode) and uri.value is not None and prerequisite.type == "data":
            edits = (Edit(uri, f"[{uri.source.text[uri.start : uri.end]}]"),) if uri.style not in ("|", ">") else ()
            yield Finding(
                uri, text("uri of {name} must be a list, because it is data", name=name), "put it in brackets", edits
            )
        elif isinstance(uri, SequenceNode) and prerequisite.type != "data":
            yield Finding(
                uri,
                text("uri of {name} must be one string, not a list", name=name),
                text("a {type} has one address", type=prerequisite.type),
            )
        if "auth" in prerequisite.node and prerequisite.type != "dockerimage":
            message = text(
                "{name} of type {type} has 'auth', which only images have", name=name, type=prerequisite.type
            )
            yield Finding(prerequisite.node.key("auth") or prerequisite.name, message, "remove it")


@rule("JOB624", "unused-prerequisite", INFO)
def unused_prerequisite(document: Document) -> Findings:
    """No task role uses a prerequisite.

    Why: it does no harm, but often a reference was forgotten.

    Fails with::

        # job.yaml
         - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        +- {name: cifar, type: data, uri: [https://example.com/cifar.tar.gz]}
    """
    # Every prerequisite that nothing names, unless a reference of its type is wrong: it may have meant this one. Where
    # no task role can be read, nothing can name any.
    job = job_of(document)
    if not job.roles:
        return
    used = {name.text for prerequisite in job.prerequisites for name in prerequisite.node.sequence("require").scalars()}
    for role in job.roles.values():
        used.update(name.text for name in role.node.sequence("prerequisites").scalars())
    for key, kind in REFERENCES.items():
        names = {name.text for role in job.roles.values() if (name := role.node.text(key))}
        there = {
            prerequisite.name.text: prerequisite for prerequisite in job.prerequisites if prerequisite.type == kind
        }
        if names - there.keys() or used - job.named.keys():
            continue
        for word, prerequisite in there.items():
            if word not in names | used:
                hint = text("write {key}: {word} in a task role, or remove it", key=key, word=word)
                yield Finding(prerequisite.name, text("no task role uses the prerequisite {word!r}", word=word), hint)


@rule("JOB617", "clear-password", WARNING)
def clear_password(document: Document) -> Findings:
    """The password of an image registry is in the job in clear text.

    Why: everyone who may see the job can see its file. Values of `secrets` are stored separately and masked.

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
    # Every password of a registry that is no template.
    for prerequisite in job_of(document).prerequisites:
        password = prerequisite.node.mapping("auth").scalar("password")
        if password is not None and password.text.strip() and "<%" not in password.text:
            message = text("the registry password of {name!r} is here in clear text", name=prerequisite.name.text)
            yield Finding(password, message, "move it to secrets and write <% $secrets.name %> here")
