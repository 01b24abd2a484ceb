"""SSH into the tasks of a job (the runtime's plugin `ssh`): its keys, a port on the nodes for each task, the server.

The server is the image's own sshd, or the one that apt-get installs as OpenPAI's runtime did. It lets in keys only.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final

from paictl.cluster.kubernetes.names import GROUP
from paictl.cluster.kubernetes.paijob.names import JOB, SSH_HOST_KEY, role_label, ssh_name
from paictl.cluster.kubernetes.paijob.resource import PaiJob
from paictl.controller.runtime import FOLDER, MOST_ADDRESSES, RoleOptions
from paictl.frozen import frozen
from paictl.remote.openssl import key_pair
from paictl.workload.fields import Fields
from paictl.workload.job import Job
from paictl.workload.ports import SSH_PORT
from paictl.workload.ssh import MOST_TASKS, SshAccess, ssh_of

Json = dict[str, Any]

SERVES: Final = f"{GROUP}/ssh-role"
"""Label of pods with a server: the role, as names have it."""
AUTHORIZED: Final = "authorized_keys"
HOST: Final = "host_key"
OWN: Final = "job_key"
PUBLIC: Final = "host_key.pub"
_INDEX: Final = "batch.kubernetes.io/job-completion-index"


def access_of(pai: PaiJob, job: Job) -> SshAccess | None:
    """What a job asks for; None if for nothing. Raises `JobError`."""
    access = ssh_of(Fields(pai.data, ""), gang=job.gang)
    return access if access is not None and (access.between or access.people) else None


def secret_name(pai: PaiJob) -> str:
    """The Secret with the keys of a job."""
    return f"{pai.name}-ssh"


def key_data(pai: PaiJob, access: SshAccess) -> dict[str, str]:
    """What that Secret holds, base64: keys that are made here, and the public ones that the servers let in."""
    host = key_pair()
    allowed = [*dict.fromkeys((*access.keys, *pai.ssh_keys))] if access.people else []
    data = {HOST: host.private, PUBLIC: host.public}
    if access.between:
        own = key_pair()
        allowed.append(f"{own.public} tasks of {pai.name}")
        data[OWN] = own.private
    data[AUTHORIZED] = "".join(f"{line}\n" for line in allowed)
    return {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}


def host_key(secret: Mapping[str, Any]) -> str:
    """The public key of the servers, from the Secret; empty if it is damaged."""
    try:
        return base64.b64decode(str((secret.get("data") or {}).get(PUBLIC, "")), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return ""


def with_port(options: RoleOptions, role: str, access: SshAccess | None) -> RoleOptions:
    """The options of a role with a port for its server."""
    if access is None or not access.is_for(role):
        return options
    return RoleOptions(options.shm, options.infiniband, {**(options.ports or {}), SSH_PORT: 1})


@frozen
class TaskPort:
    """A task that gets a port on the nodes, and its port in the pod."""

    role: str
    index: int
    port: int


def task_ports(job: Job, options: Mapping[str, RoleOptions], access: SshAccess | None) -> Iterator[TaskPort]:
    """The first tasks of a job that people may reach, in order."""
    remaining = MOST_TASKS
    for role in job.roles if access is not None and access.people else ():
        if access is not None and access.is_for(role.name):
            port = options[role.name].port_lists()[SSH_PORT][0]
            for index in range(min(role.instances, remaining)):
                yield TaskPort(role.name, index, port)
            remaining -= min(role.instances, remaining)


def service(about: Json, pai: PaiJob, task: TaskPort, public: str) -> Json:
    """The Service that gives a task a port on every node."""
    selector = {JOB: pai.name, SERVES: role_label(task.role), _INDEX: str(task.index)}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**about, "annotations": {SSH_HOST_KEY: public}},
        "spec": {
            "type": "NodePort",
            "selector": selector,
            "ports": [{"name": SSH_PORT, "port": 22, "targetPort": task.port}],
        },
    }


def service_name(pai: PaiJob, task: TaskPort) -> str:
    """Its name."""
    return ssh_name(pai.name, task.role, task.index)


def volume_items(pai: PaiJob, role: str, access: SshAccess | None) -> list[Json]:
    """The projected volumes' sources of the keys; none for a role without a server."""
    if access is None or not access.is_for(role):
        return []
    names = [HOST, AUTHORIZED, *([OWN] if access.between else [])]
    items = [{"key": name, "path": name, "mode": 0o400} for name in names]
    return [{"name": "ssh", "secret": {"secretName": secret_name(pai), "items": items}}]


MOUNTED: Final = f"{FOLDER}-ssh"
"""Where the keys are in a container."""


def script(job: Job, options: Mapping[str, RoleOptions], access: SshAccess | None) -> str:
    """The part of what a container runs that starts its server, before the job's own commands; empty without."""
    if access is None:
        return ""
    ports = {role: options[role.name].port_lists()[SSH_PORT][0] for role in job.roles if access.is_for(role.name)}
    lines = [f'[ "$PAI_CURRENT_TASK_ROLE_NAME" = {role.name} ] && pai_ssh {port}' for role, port in ports.items()]
    if access.between and sum(role.instances for role in job.roles) <= MOST_ADDRESSES:
        lines += [f"pai_peers {role.name} {role.instances} {port}" for role, port in ports.items()]
    return "\n".join([_START, *lines])


_START: Final = f"""\
# a server for SSH, if the plugin is for this role: what goes wrong is said, and the task runs without it
pai_home=$(eval "echo ~$(id -un 2>/dev/null || echo root)")
pai_ssh_install() {{
  command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" -eq 0 ] || return 1
  echo "paictl: this image has no sshd; installing openssh-server"
  pai_quick='-o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10 -o Acquire::Retries=0'
  export DEBIAN_FRONTEND=noninteractive
  (apt-get $pai_quick update &&
    apt-get $pai_quick install -y --no-install-recommends openssh-server openssh-client) >/dev/null 2>&1
}}
pai_ssh() {{
  pai_sshd=$(PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v sshd) ||
    {{ pai_ssh_install && pai_sshd=$(PATH="$PATH:/usr/sbin" command -v sshd); }} ||
    {{ echo "paictl: no SSH: this image has no sshd, and apt-get cannot install it"; return; }}
  pai_keys="${{TMPDIR:-/tmp}}/pai-ssh-$$"
  (umask 077 && mkdir -p "$pai_keys" "$pai_home/.ssh" && cp {MOUNTED}/* "$pai_keys" && chmod 600 "$pai_keys"/*) ||
    {{ echo "paictl: no SSH: its keys cannot be copied"; return; }}
  mkdir -p /run/sshd /var/empty 2>/dev/null
  env | grep -E '^(PAI_|NVIDIA_|CUDA_|LD_LIBRARY_PATH=|PATH=)' >"$pai_home/.ssh/environment"
  cat >"$pai_keys/config" <<END
Port $1
HostKey $pai_keys/host_key
AuthorizedKeysFile $pai_keys/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PermitUserEnvironment yes
StrictModes no
PidFile $pai_keys/pid
END
  if "$pai_sshd" -f "$pai_keys/config"; then
    pai_wait=0 # it goes to the background first, and writes this file once it listens
    while [ ! -s "$pai_keys/pid" ] && [ "$pai_wait" -lt 100 ]; do
      sleep 0.1 2>/dev/null || sleep 1
      pai_wait=$((pai_wait + 1))
    done
    [ -s "$pai_keys/pid" ] || echo "paictl: no SSH: sshd does not listen on port $1"
  else
    echo "paictl: no SSH: sshd does not start"
  fi
  if [ -f "$pai_keys/job_key" ]; then
    pai_config=/etc/ssh/ssh_config # a home may be a storage, and keep what it is told
    [ -w /etc/ssh ] || pai_config="$pai_home/.ssh/config"
    printf '%s\\n' 'Host *' "  IdentityFile $pai_keys/job_key" '  StrictHostKeyChecking no' \\
      '  UserKnownHostsFile /dev/null' '  LogLevel ERROR' >>"$pai_config"
    chmod go-w "$pai_config"
  fi
}}
pai_peers() {{
  [ -n "${{pai_config:-}}" ] || return 0
  pai_index=0
  while [ "$pai_index" -lt "$2" ]; do
    eval "pai_peer=\\$PAI_HOST_IP_$1_$pai_index"
    printf 'Host %s-%s %s\\n  HostName %s\\n  Port %s\\n' "$1" "$pai_index" "$pai_peer" "$pai_peer" "$3" \\
      >>"$pai_config"
    pai_index=$((pai_index + 1))
  done
}}"""
