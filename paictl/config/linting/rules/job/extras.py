"""Plugins and other extras that nobody reads, or not as they stand there.

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
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from paictl.config.linting.rule import ERROR, INFO, WARNING, Document, Finding, Findings, rule
from paictl.config.linting.rules.job.scheduling import OF_JOB, OF_ROLE
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.job import JobSpec, job_of
from paictl.config.reading.nodes import Entry, MappingNode, ScalarNode, nearest_node
from paictl.errors import PaictlError
from paictl.i18n import listed, text
from paictl.suggestions import nearest
from paictl.workload.fields import Fields, JobError, steps_of
from paictl.workload.job import SAVE_ON_SIGTERM, Restart, grace_refusal
from paictl.workload.mounts import mounts_of
from paictl.workload.plugins import CMD, GIT, IMAGE_CHECKER, KNOWN, PLUGINS, SSH, STORAGE, TENSORBOARD, image_checks
from paictl.workload.ports import tensorboard_of
from paictl.workload.runlimits import limit_of
from paictl.workload.ssh import ssh_of
from paictl.workload.tags import FIELD, refusal
from paictl.workload.template import MASK


@rule("JOB625", "unknown-plugin-role", WARNING)
def unknown_plugin_role(document: Document) -> Findings:
    """A runtime plugin is for a task role that the job does not have.

    Why: the runtime compares names and silently skips the plugin.

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
          - plugin: ssh
            parameters: {jobssh: true}
            taskRoles: [train]

    Fails with::

        # job.yaml
        -    taskRoles: [train]
        +    taskRoles: [trian]
    """
    # Every name under taskRoles of a plugin that is no task role.
    job = job_of(document)
    for plugin in job.top.mapping("extras").sequence("com.microsoft.pai.runtimeplugin").mappings():
        for name in plugin.sequence("taskRoles").scalars():
            if job.roles and name.text not in job.roles:
                message = text("the plugin is for {name!r}, which is not a task role", name=name.text)
                yield Finding(
                    name, message, *suggested(name, job.roles, text("name one of: {names}", names=listed(job.roles)))
                )


EXTRAS = (
    "checkpointEvery",
    "com.microsoft.pai.runtimeplugin",
    "gangAllocation",
    "hivedScheduler",
    "jobStatusChangeNotification",
    "maxRunTime",
    "reservation",
    "restart",
    "saveOnSigterm",
    "storages",
    "submitFrom",
    "tags",
)


CUTOFF = 0.85
"""How much must be alike: a key of one's own is no mistake."""


@rule("JOB627", "misspelt-extra", WARNING)
def misspelt_extra(document: Document) -> Findings:
    """A key of `extras` looks like a misspelling of one that OpenPAI reads.

    Why: `extras` may hold keys of your own, so a mistyped key is taken for one of them and silently has no effect.

    Fails with::

        # job.yaml
        -extras: {gangAllocation: false}
        +extras: {gangallocation: false}
    """
    # Every key of `extras` that is close to a known one.
    for entry in job_of(document).top.mapping("extras"):
        meant = None if entry.name in EXTRAS else nearest(entry.name, EXTRAS, CUTOFF)
        if meant is not None:
            yield Finding(
                entry.key,
                text("extras has a key {entry!r}, which is not read", entry=entry.name),
                text("did you mean {meant!r}?", meant=meant),
            )


_INSTEAD_OF_PLUGIN: Final = {
    GIT: "run git clone in commands",
}
_PLUGIN_CUTOFF: Final = 0.6
"""How much a plugin's name must be like a known one: names of plugins are not one's own."""


_PLUGIN_KEYS: Final = ("plugin", "parameters", "taskRoles", "failurePolicy")
_ON_FAILURE: Final = {SSH: "ignore", TENSORBOARD: "ignore", STORAGE: "fail", IMAGE_CHECKER: "fail"}
"""What happens if a plugin fails, in words of `failurePolicy`, where a job cannot choose."""
_WHAT_HAPPENS: Final = {
    SSH: "a task whose SSH server does not start runs without it",
    TENSORBOARD: "a task whose TensorBoard does not start runs without it",
    STORAGE: "a job whose storage is missing is refused",
    IMAGE_CHECKER: "a job whose image is missing is refused",
}


_INSTEAD_OF_EXTRA: Final = {
    "jobStatusChangeNotification": "remove it, and follow the job with: paictl job list",
    "retainContainers": "remove it, and save what you want to keep in commands",
}


_CALLBACKS: Final = ("plugin", "callbacks", "failurePolicy")
"""Keys of a prerequisite that only mean something together, and only with the plugin cmd."""


_READ: Final = frozenset(
    {
        "checkpointEvery",
        "hivedScheduler",
        "gangAllocation",
        "maxRunTime",
        "reservation",
        "restart",
        "saveOnSigterm",
        "storages",
        "submitFrom",
        "tags",
    }
)
"""Extras that mean something here, or that only say which program wrote the job."""


@rule("JOB630", "field-without-effect", WARNING)
def without_effect(document: Document) -> Findings:
    """A field of the job has no effect on a paictl cluster.

    Why: jobs written for OpenPAI can name features of its runtime and other services that do not exist here. The job
    is submitted and runs without them: no mail, no clone of a repository. The plugins `cmd`, `image_checker`, `ssh`,
    `teamwise_storage` and `tensorboard` work, and so does `storages`.

    Fails with::

        # job.yaml
        -extras: {gangAllocation: false}
        +extras:
        +  retainContainers: true
    """
    # Every plugin of the runtime, key of `extras` or of a plugin, and command of a prerequisite that nothing reads.
    for entry in _unread(job_of(document)):
        if entry.name != PLUGINS:
            hint = _INSTEAD_OF_EXTRA.get(entry.name, "remove it, or keep it as a note of your own")
            yield Finding(entry.key, text("extras.{entry} has no effect here", entry=entry.name), hint)
    for plugin in job_of(document).top.mapping("extras").sequence(PLUGINS).mappings():
        name = plugin.text("plugin")
        if name is not None and name.text in _INSTEAD_OF_PLUGIN:
            message = text("the runtime plugin {name!r} has no effect here", name=name.text)
            yield Finding(name, message, _INSTEAD_OF_PLUGIN[name.text])
        if name is not None and name.text == SSH and (barrier := plugin.mapping("parameters").key("sshbarrier")):
            hint = "remove it: tasks of a gang wait for the addresses of all others before their commands begin"
            yield Finding(barrier, "the parameter sshbarrier has no effect here", hint)
        yield from _unread_of(plugin)
    yield from _without_plugin(job_of(document))
    restart = job_of(document).top.mapping("extras").text("restart")
    if restart is not None and restart.text == Restart.MEMBER and not job_of(document).gang:
        hint = "remove it: without a gang, every task starts again alone"
        yield Finding(restart, "extras.restart has no effect without gangAllocation", hint)
    if flag := job_of(document).hived.key("gangReleaseEnable"):
        hint = "remove it: the devices of a gang are released pod by pod"
        yield Finding(flag, "extras.hivedScheduler.gangReleaseEnable has no effect here", hint)


@rule("JOB631", "unknown-plugin", ERROR)
def unknown_plugin(document: Document) -> Findings:
    """A runtime plugin is not one of OpenPAI's.

    Why: the plugin would not run, and a job without it is not what the user wants.

    Fails with::

        # job.yaml
        -extras: {gangAllocation: false}
        +extras:
        +  com.microsoft.pai.runtimeplugin: [{plugin: teamwise_storge}]
    """
    # Every plugin whose name OpenPAI's runtime does not have.
    for plugin in job_of(document).top.mapping("extras").sequence(PLUGINS).mappings():
        name = plugin.text("plugin")
        if name is not None and name.text not in KNOWN:
            meant = nearest(name.text, KNOWN, _PLUGIN_CUTOFF)
            hint = (
                text("did you mean {meant!r}?", meant=meant)
                if meant
                else text("name one of: {names}", names=", ".join(KNOWN))
            )
            yield Finding(name, text("no runtime plugin {name!r}", name=name.text), hint)


@rule("JOB632", "storage-mount", ERROR)
def storage_mount(document: Document) -> Findings:
    """A storage cannot be mounted as the job says.

    Why: the job is refused. Storages are mounted at absolute paths, not over folders of the system, and the plugin
    `teamwise_storage` has one parameter, `storageConfigNames`. Only the cluster knows which storages exist.

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
          storages: [{name: datasets, mountPath: /data, readOnly: true}]

    Fails with::

        # job.yaml
        -  storages: [{name: datasets, mountPath: /data, readOnly: true}]
        +  storages: [{name: datasets, mountPath: data, readOnly: true}]
    """
    # The first field of extras.storages or teamwise_storage that cannot be read.
    top = job_of(document).top
    data = document.data
    if not isinstance(data, dict) or "extras" not in data:
        return
    try:
        mounts_of(Fields(data, ""))
    except JobError as error:
        node = nearest_node(top, steps_of(error.path))
        if (isinstance(node, ScalarNode) and error.path.endswith(".mountPath")) or ".parameters." in error.path:
            yield Finding(node, error.message, error.hint)  # the schema says the rest


@rule("JOB633", "ssh-access", ERROR)
def ssh_access(document: Document) -> Findings:
    """The plugin `ssh` has an unknown parameter, or an invalid key.

    Why: the job is refused. Parameters are `jobssh` (tasks reach each other) and `userssh` with the type `custom`,
    which lets in the keys of the user's account (`paictl user key`) and those under `value`.

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
          - plugin: ssh
            parameters: {jobssh: true, userssh: {type: custom}}

    Fails with::

        # job.yaml
        -    parameters: {jobssh: true, userssh: {type: custom}}
        +    parameters: {jobssh: true, usersh: {type: custom}}
    """
    # The first parameter of ssh that cannot be read.
    data = document.data
    if not isinstance(data, dict) or "extras" not in data:
        return
    try:
        ssh_of(Fields(data, ""))
    except JobError as error:
        if ".parameters" in error.path or "twice" in error.message:
            yield Finding(nearest_node(job_of(document).top, steps_of(error.path)), error.message, error.hint)


@rule("JOB634", "tensorboard-parameters", ERROR)
def tensorboard_parameters(document: Document) -> Findings:
    """The plugin `tensorboard` cannot be started as the job says.

    Why: the job is refused. Parameters are `logdir` (a folder, or several by name) and `port` (6006), which no
    label of `resourcePerInstance.ports` may use.

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
          - plugin: tensorboard
            parameters: {port: 6006, logdir: {logs: /mnt/tensorboard}}

    Fails with::

        # job.yaml
        -    parameters: {port: 6006, logdir: {logs: /mnt/tensorboard}}
        +    parameters: {port: 70000, logdir: {logs: /mnt/tensorboard}}
    """
    # The first parameter of tensorboard that cannot be read.
    data = document.data
    if not isinstance(data, dict) or not isinstance(data.get("extras"), dict):
        return
    try:
        tensorboard_of(Fields(data, ""))
    except JobError as error:
        if f"'{PLUGINS}'" in error.path and (".parameters" in error.path or "twice" in error.message):
            yield Finding(nearest_node(job_of(document).top, steps_of(error.path)), error.message, error.hint)


@rule("JOB635", "image-checker", ERROR)
def image_checker(document: Document) -> Findings:
    """The plugin `image_checker` has an unknown parameter, or an invalid address.

    Why: the job is refused. Its one parameter is `docker_registry_service_url`, where the registry answers if that is
    not at the host that the image names. A note says that `paictl job submit` asks the registries, and not the portal
    or the REST API: a job file could make them send requests anywhere in the cluster's network. There, `paictl job
    show` says when an image cannot be pulled.

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
          com.microsoft.pai.runtimeplugin: [{plugin: cmd}]

    Fails with::

        # job.yaml
        -  com.microsoft.pai.runtimeplugin: [{plugin: cmd}]
        +  com.microsoft.pai.runtimeplugin:
        +  - {plugin: image_checker, parameters: {docker_registry_service_url: registry.lab}}
    """
    # The first parameter of image_checker that cannot be read; a note where the plugin stands.
    for plugin in job_of(document).top.mapping("extras").sequence(PLUGINS).mappings():
        name = plugin.text("plugin")
        if name is not None and name.text == IMAGE_CHECKER:
            message = "the images are checked by paictl job submit, not by the portal or the REST API"
            yield Finding(name, message, severity=INFO)
    data = document.data
    if not isinstance(data, dict) or not isinstance(data.get("extras"), dict):
        return
    try:
        image_checks(Fields(data, ""))
    except JobError as error:
        if f"'{PLUGINS}'" in error.path and ".parameters" in error.path:
            yield Finding(nearest_node(job_of(document).top, steps_of(error.path)), error.message, error.hint)


@rule("JOB636", "tag", ERROR)
def tag(document: Document) -> Findings:
    """A tag of the job is one that no job can have, or there are too many.

    Why: the job is refused. A tag has 1 to 64 characters, without spaces and commas; a job has at most 20.

    Fails with::

        # job.yaml
        -extras: {gangAllocation: false}
        +extras: {tags: [sweep 7]}
    """
    # The first tag that cannot be one, or the list if it is too long.
    tags = job_of(document).top.mapping("extras").sequence(FIELD)
    scalars = [word for word in tags.scalars() if word.tag == "str"]
    for word in scalars:
        if wrong := refusal([word.text]):
            yield Finding(word, *wrong)
            return
    if wrong := refusal(word.text for word in scalars):
        yield Finding(job_of(document).top.mapping("extras").key(FIELD) or scalars[-1], *wrong)


@rule("JOB637", "masked-secret", ERROR)
def masked_secret(document: Document) -> Findings:
    """A secret of the job is `******`, which stands for the value in a clone.

    Why: a cluster does not return secrets, so the job would run with asterisks. Enter the value again.

    Fails with::

        # job.yaml
        -extras: {gangAllocation: false}
        +secrets: {token: "******"}
    """
    # Every value of secrets, and password of a registry, that is the mask.
    top = job_of(document).top
    passwords = (image.mapping("auth").text("password") for image in top.sequence("prerequisites").mappings())
    for value in (*_scalars_in(top.mapping("secrets")), *passwords):
        if value is not None and value.text == MASK:
            yield Finding(
                value, "the value of this secret is missing", text("replace {mask} with the value", mask=MASK)
            )


def _scalars_in(node: MappingNode) -> Iterator[ScalarNode]:
    for entry in node:
        if isinstance(entry.value, ScalarNode):
            yield entry.value
        elif isinstance(entry.value, MappingNode):
            yield from _scalars_in(entry.value)


def _without_plugin(job: JobSpec) -> Findings:
    """Prerequisites whose commands nobody runs: by another plugin than cmd, or of which no task role makes use."""
    used = {name.text for role in job.roles.values() for name in role.node.sequence("prerequisites").scalars()}
    waiting = list(used)
    while waiting:
        for prerequisite in job.named.get(waiting.pop(), ()):
            more = {name.text for name in prerequisite.node.sequence("require").scalars()} - used
            used |= more
            waiting += more
    for prerequisite in job.prerequisites:
        plugin = prerequisite.node.text("plugin")
        if plugin is not None and plugin.text == f"{PLUGINS}.{CMD}":
            yield from _unread_callbacks(prerequisite.node)
            if prerequisite.name.text not in used:
                hint = "name it in prerequisites of a task role"
                yield Finding(
                    plugin, text("no task role uses the commands of {name!r}", name=prerequisite.name.text), hint
                )
            continue
        for key in _CALLBACKS:
            if node := prerequisite.node.key(key):
                hint = text(
                    "only the plugin {plugin} runs here: put what it does into commands",
                    plugin=f"{PLUGINS}.{CMD}",
                )
                yield Finding(
                    node,
                    text("{key} of the prerequisite {name!r} has no effect here", key=key, name=prerequisite.name.text),
                    hint,
                )


def _unread_of(plugin: MappingNode) -> Findings:
    """What nothing reads of an entry of the runtime's plugins: keys, parameters of cmd, a policy that is not kept."""
    name = plugin.text("plugin")
    yield from _strange(plugin, _PLUGIN_KEYS)
    policy = plugin.text("failurePolicy")
    happens = None if name is None else _ON_FAILURE.get(name.text)
    if name is not None and policy is not None and happens not in (None, policy.text):
        hint = text("remove it: {what}", what=text(_WHAT_HAPPENS[name.text]))
        yield Finding(policy, text("failurePolicy of the plugin {name} has no effect here", name=name.text), hint)
    if name is not None and name.text == CMD:
        yield from _strange(plugin.mapping("parameters"), ("callbacks",))
        yield from _unread_callbacks(plugin.mapping("parameters"))


def _unread_callbacks(holder: MappingNode) -> Findings:
    for callback in holder.sequence("callbacks").mappings():
        yield from _strange(callback, ("event", "commands"))


def _strange(node: MappingNode, known: tuple[str, ...]) -> Findings:
    """Keys that are none of those that are read."""
    for entry in node:
        if entry.name not in known:
            meant = nearest(entry.name, known, CUTOFF)
            hint = (
                text("did you mean {meant!r}?", meant=meant) if meant else text("one of: {known}", known=listed(known))
            )
            yield Finding(entry.key, text("{key} has no effect here", key=entry.name), hint)


def _unread(job: JobSpec) -> Iterator[Entry]:
    """Keys of `extras` that nothing reads, but for those that other rules lead to the right place or spelling."""
    for entry in job.top.mapping("extras"):
        elsewhere = entry.name in (*OF_JOB, *OF_ROLE)
        if entry.name in _READ or elsewhere:
            continue
        if entry.name in EXTRAS or nearest(entry.name, EXTRAS, CUTOFF) is None:
            yield entry


@rule("JOB638", "slow-save", ERROR)
def slow_save(document: Document) -> Findings:
    """A job wants more time to save its work than a preempted job gets.

    Why: the stronger job waits for the devices meanwhile, so after 5 minutes the victim is killed, and its work is
    lost.

    Fails with::

        # job.yaml
        -extras: {gangAllocation: false}
        +extras: {saveOnSigterm: 10m}
    """
    # `saveOnSigterm` that is a duration, and too long.
    grace = job_of(document).top.mapping("extras").scalar(SAVE_ON_SIGTERM)
    try:
        refused = None if grace is None else grace_refusal(limit_of(grace.value))
    except PaictlError:
        return  # the schema says that it is no duration
    if grace is not None and refused is not None:
        yield Finding(grace, *refused)
