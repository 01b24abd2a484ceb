"""The objects of a job: Indexed Jobs, a headless Service, Secrets; what they are follows from the `PaiJob` alone."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from paictl.cluster.admission import durations_of
from paictl.cluster.kubernetes.names import FOR_JOBS, JOBS_NAMESPACE, MAX_RUN_TIME
from paictl.cluster.kubernetes.paijob.names import (
    API_VERSION,
    DURATION,
    KEY,
    KIND,
    OWNER,
    PULL,
    RETRY,
    ROLE,
    SCRIPTS,
    TASK,
    labels_of,
    retry_name,
    role_label,
    work_name,
)
from paictl.cluster.kubernetes.paijob.resource import PaiJob
from paictl.cluster.kubernetes.paijob.summaries import INDEX
from paictl.cluster.pods.times import CHECKPOINT_EVERY, RESERVATION, SAVES_ON_SIGTERM
from paictl.cluster.storages import Mount
from paictl.controller import ssh
from paictl.controller.runtime import (
    COMMANDS,
    FOLDER,
    RUNTIME,
    RoleOptions,
    board_script,
    commands_script,
    environment,
    options_of,
    runtime_script,
)
from paictl.frozen import frozen
from paictl.scheduler.wire import ENABLE, GATE, SCHEDULING_SPEC
from paictl.workload.fields import Fields
from paictl.workload.job import Job, TaskRole
from paictl.workload.lifecycle import task_policy
from paictl.workload.ports import MOST_NUMBERS, TensorBoard, refuse_ports, tensorboard_of
from paictl.workload.ssh import SshAccess
from paictl.workload.template import Values

Json = dict[str, Any]

SCHEDULER: Final = "hivedscheduler"
_ENDLESS: Final = 2**31 - 1
_INDEX: Final = "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"


@frozen
class JobContext:
    """A job, and what of its cluster its objects depend on."""

    pai: PaiJob
    classes: bool = True
    """Whether the cluster has our priority classes."""
    gated: bool = False
    """Whether pods come to the scheduler by its gate; otherwise kube-scheduler asks it."""
    mounts: Mapping[str, Sequence[Mount]] = field(default_factory=dict)
    """The storages that the containers of each role get."""

    @property
    def job(self) -> Job:
        """As its user wishes it, secrets masked."""
        return self.pai.job

    @property
    def owner(self) -> list[Json]:
        """What makes Kubernetes delete an object with the `PaiJob`."""
        reference = {"apiVersion": API_VERSION, "kind": KIND, "name": self.pai.name, "uid": self.pai.uid}
        return [{**reference, "controller": True, "blockOwnerDeletion": False}]

    @property
    def access(self) -> SshAccess | None:
        """Who may reach its tasks by SSH; raises `JobError` for a job made by hand and wrongly."""
        return ssh.access_of(self.pai, self.job)

    @property
    def board(self) -> TensorBoard | None:
        """The TensorBoard that it wants; raises `JobError` likewise."""
        return tensorboard_of(Fields(self.pai.data, ""))

    def options(self) -> dict[str, RoleOptions]:
        """By role; raises `JobError` for more ports than there are, of which each would be a number in memory."""
        refuse_ports(Fields(self.pai.data, ""), MOST_NUMBERS)
        access = self.access
        return {
            role.name: ssh.with_port(options_of(self.pai.data, role.name), role.name, access) for role in self.job.roles
        }

    def about(self, name: str, attempt: int | None = None) -> Json:
        """Metadata of an object of the job."""
        return {
            "name": name,
            "namespace": JOBS_NAMESPACE,
            "labels": labels_of(self.pai.name, attempt),
            "ownerReferences": self.owner,
        }


def scripts(context: JobContext, attempt: int, secrets: Mapping[str, Any]) -> Json:
    """The Secret with what the containers of an attempt run, the values of secrets in their places."""
    pai = context.pai
    whole = Job.from_mapping({**pai.data, "secrets": dict(secrets)} if secrets else pai.data, reveal_secrets=True)
    data = {f"{role.name}.sh": _encoded(commands_script(role.commands)) for role in whole.roles}
    options = context.options()
    before = "\n".join(filter(None, (ssh.script(context.job, options, context.access), board_script(context.board))))
    data[RUNTIME] = _encoded(runtime_script(pai.name, context.job, attempt, options, before))
    about = context.about(f"{pai.name}-{SCRIPTS}-{attempt}", attempt)
    return {"apiVersion": "v1", "kind": "Secret", "metadata": about, "immutable": True, "data": data}


def pull_secret(context: JobContext, secrets: Mapping[str, Any], passwords: Mapping[str, str]) -> Json | None:
    """The Secret with which images are pulled; None for a job whose images need none."""
    logins: Json = {}
    for image in context.pai.data.get("prerequisites") or ():
        auth = image.get("auth") if isinstance(image, Mapping) else None
        if isinstance(auth, Mapping) and auth.get("username"):
            password = passwords.get(str(image.get("name")), str(auth.get("password", "")))
            word, _ = Values({"secrets": secrets}).render(password, "auth.password")
            user = str(auth["username"])
            server = str(auth.get("registryuri") or "https://index.docker.io/v1/")
            logins[server] = {"username": user, "password": word, "auth": _encoded(f"{user}:{word}")}
    if not logins:
        return None
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": context.about(f"{context.pai.name}-{PULL}"),
        "data": {".dockerconfigjson": _encoded(json.dumps({"auths": logins}))},
    }


def ssh_secret(context: JobContext, access: SshAccess) -> Json:
    """The Secret with the keys for SSH, the same for all attempts."""
    about = context.about(ssh.secret_name(context.pai))
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": about,
        "immutable": True,
        "data": ssh.key_data(context.pai, access),
    }


def ssh_services(context: JobContext, secret: Json) -> list[Json]:
    """The Services that give tasks a port on the nodes."""
    public = ssh.host_key(secret)
    return [
        ssh.service(context.about(ssh.service_name(context.pai, task)), context.pai, task, public)
        for task in ssh.task_ports(context.job, context.options(), context.access)
    ]


def service(context: JobContext) -> Json:
    """The headless Service that gives every pod of the job a name."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": context.about(context.pai.name),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels_of(context.pai.name)},
    }


def work(context: JobContext, role: TaskRole, attempt: int) -> Json:
    """The Indexed Job of a role in an attempt.

    Kubernetes retries by itself what the state machine would retry, so that both agree: a pod that was disturbed
    without counting, one that failed as often as its role says. Of a gang nothing: that starts again as a whole.
    """
    policy = task_policy(context.job, role.name)
    limit = policy.limit if policy.limit >= 0 else _ENDLESS
    disturbed = "Ignore" if policy.free_if_transient else "FailIndex"
    spec = {
        "completionMode": "Indexed",
        "completions": role.instances,
        "parallelism": role.instances,
        "backoffLimitPerIndex": limit,
        "podFailurePolicy": {"rules": [_disturbed(disturbed)]},
        "podReplacementPolicy": "Failed",
        "template": _template(context, role, attempt),
    }
    about = context.about(work_name(context.pai.name, role.name, attempt), attempt)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _noted(context, about, role), "spec": spec}


def retry(context: JobContext, role: TaskRole, attempt: int, index: int, again: int) -> Json:
    """A Job that runs one task once more, where the Indexed Job of its role has done with it and the job has not."""
    template = _template(context, role, attempt, index)
    noted = {TASK: str(index), RETRY: str(again)}
    template["metadata"]["annotations"] |= noted
    template["spec"]["hostname"] = f"{work_name(context.pai.name, role.name, attempt)}-{index}"  # where the others look
    spec = {
        "completionMode": "Indexed",
        "completions": 1,
        "parallelism": 1,
        "backoffLimitPerIndex": 0,
        "podFailurePolicy": {"rules": [_disturbed("FailIndex")]},
        "podReplacementPolicy": "Failed",
        "template": template,
    }
    about = _noted(
        context, context.about(retry_name(context.pai.name, role.name, attempt, index, again), attempt), role
    )
    about["annotations"] |= noted
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": about, "spec": spec}


def _disturbed(action: str) -> Json:
    return {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def _noted(context: JobContext, about: Json, role: TaskRole) -> Json:
    return {**about, "annotations": {ROLE: role.name, OWNER: context.pai.uid}}


def _template(context: JobContext, role: TaskRole, attempt: int, index: int | None = None) -> Json:
    pai, options, access = context.pai, context.options(), context.access
    noted = {
        ROLE: role.name,
        KEY: pai.key,
        OWNER: pai.uid,
        SCHEDULING_SPEC: json.dumps(_spec(context, role, attempt), separators=(",", ":")),
    }
    lasting = durations_of(context.job, pai.duration)[role.name]
    if lasting is not None:
        noted[DURATION] = f"{lasting}ms"
    limit = None if pai.record is None else pai.record.max_run_time
    if limit is not None:
        noted[MAX_RUN_TIME] = f"{limit}ms"
    if context.job.checkpoint_every is not None:
        noted[CHECKPOINT_EVERY] = f"{context.job.checkpoint_every // 1000}s"
    if context.job.save_on_sigterm is not None:
        noted[SAVES_ON_SIGTERM] = "true"
    if context.job.reservation:
        noted[RESERVATION] = context.job.reservation
    spec: Json = {
        **({"schedulingGates": [{"name": GATE}]} if context.gated else {"schedulerName": SCHEDULER}),
        **_until_killed(context.job),
        "restartPolicy": "Never",
        "subdomain": pai.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "tolerations": [{"key": FOR_JOBS, "operator": "Exists"}],
        "containers": [_container(context, role, options, index)],
        "volumes": [
            {
                "name": "scripts",
                "secret": {
                    "secretName": f"{pai.name}-{SCRIPTS}-{attempt}",
                    "items": [{"key": RUNTIME, "path": RUNTIME}, {"key": f"{role.name}.sh", "path": COMMANDS}],
                },
            },
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{options[role.name].shm}Mi"}},
            *_claims(context.mounts.get(role.name, ())),
            *ssh.volume_items(pai, role.name, access),
        ],
    }
    if context.classes:
        spec["priorityClassName"] = priority_class(context.job.priority_class)
    if any(isinstance(image, Mapping) and image.get("auth") for image in pai.data.get("prerequisites") or ()):
        spec["imagePullSecrets"] = [{"name": f"{pai.name}-{PULL}"}]
    labels = labels_of(pai.name, attempt)
    if access is not None and access.is_for(role.name):
        labels[ssh.SERVES] = role_label(role.name)
    return {"metadata": {"labels": labels, "annotations": noted}, "spec": spec}


def _until_killed(job: Job) -> Json:
    """How long a task may continue after it is asked to stop; Kubernetes' 30 s where the job does not say."""
    if job.save_on_sigterm is None:
        return {}
    return {"terminationGracePeriodSeconds": math.ceil(job.save_on_sigterm / 1000)}


def _container(context: JobContext, role: TaskRole, options: Mapping[str, RoleOptions], index: int | None) -> Json:
    own, request, access = options[role.name], role.resources, context.access
    serves = access is not None and access.is_for(role.name)
    amounts: Json = {} if context.gated else {ENABLE: "1"}
    if request.cpu:
        amounts["cpu"] = str(request.cpu)
    if request.memory:
        amounts["memory"] = f"{request.memory}Mi"
    if own.infiniband:
        amounts["rdma/hca"] = "1"
    place: Json = {"value": str(index)} if index is not None else _field(f"metadata.annotations['{INDEX}']")
    container: Json = {
        "name": "main",
        "image": role.image,
        "command": ["/bin/sh", f"{FOLDER}/{RUNTIME}"],
        "env": [
            *environment(context.pai.name, context.pai.user, context.job, role, options),
            {"name": _INDEX, **place},
        ],
        "resources": {"limits": amounts, "requests": dict(amounts)},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "scripts", "mountPath": FOLDER, "readOnly": True},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - shared memory, in the container
            *([{"name": "ssh", "mountPath": ssh.MOUNTED, "readOnly": True}] if serves else []),
            *(_storage_mount(mount, context.pai.user) for mount in context.mounts.get(role.name, ())),
        ],
    }
    if own.infiniband:
        container["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}}
    ports = [port for row in own.port_lists().values() for port in row]
    if ports:
        container["ports"] = [{"containerPort": port} for port in ports]
    return container


def _claims(mounts: Sequence[Mount]) -> list[Json]:
    """The volumes of storages, one for each however often it is mounted."""
    return [
        {"name": f"storage-{name}", "persistentVolumeClaim": {"claimName": claim}}
        for name, claim in {mount.storage.name: mount.storage.claim for mount in mounts}.items()
    ]


def _storage_mount(mount: Mount, user: str) -> Json:
    """Where a container has a storage; of one with a folder for each user, that folder alone."""
    volume_mount: Json = {"name": f"storage-{mount.storage.name}", "mountPath": mount.path}
    if mount.own_folder:
        volume_mount["subPath"] = user
    return {**volume_mount, "readOnly": True} if mount.read_only else volume_mount


def _field(path: str) -> Json:
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


def _spec(context: JobContext, role: TaskRole, attempt: int) -> Json:
    """HiveD's spec, the group with the attempt in its name: no gang ever meets what is left of its own past."""
    assert context.pai.record is not None  # noqa: S101 - it is written before anything is made
    spec = dict(context.pai.record.scheduling[role.name])
    group = spec.get("affinityGroup")
    if group is not None and attempt:
        spec["affinityGroup"] = {**group, "name": f"{group['name']}#{attempt}"}
    return spec


def priority_class(name: str) -> str:
    """The PriorityClass of the pods of a class of jobs."""
    return f"paictl-{name}"


def priority_classes(priorities: Mapping[str, int]) -> list[Json]:
    """The PriorityClasses: kube-scheduler's queue goes by them; who has to go for whom is the extender's to decide.

    None is below 0: kube-scheduler would evict such pods for any pod that names no class, with or without devices.
    """
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": priority_class(name)},
            "value": max(value, 0),
            "preemptionPolicy": "Never",
            "description": f"jobs of priority class {name}",
        }
        for name, value in priorities.items()
    ]


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
