"""What runs in a task's container: OpenPAI's environment (names PAI_…), then the commands.

Source: OpenPAI's runtime and its manual, "Environment Variables and Port Reservation". What differs: pods have
addresses of their own here, so that all tasks of a role have the same ports and none has to be reserved on the machine;
addresses are looked up when the task starts, and where that fails the names stand for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from paictl.cluster.kubernetes.names import JOBS_NAMESPACE
from paictl.cluster.kubernetes.paijob.names import work_name
from paictl.frozen import frozen
from paictl.scheduler.wire import ISOLATION
from paictl.workload.ports import TensorBoard, port_lists

if TYPE_CHECKING:
    from paictl.workload.job import Completion, Job, TaskRole

Json = dict[str, Any]

FOLDER: Final = "/usr/local/pai"
"""Where scripts are in a container."""
RUNTIME: Final = "runtime.sh"
COMMANDS: Final = "user.sh"
BARRIER: Final = 600
"""Seconds for which a task of a gang waits for the addresses of the others."""
MOST_ADDRESSES: Final = 2_000
"""Tasks of a job whose addresses each of them gets; an environment has no room for more."""


@frozen
class RoleOptions:
    """What a role asks for beside devices: shared memory in MiB, InfiniBand, ports by label."""

    shm: int = 512
    infiniband: bool = False
    ports: Mapping[str, int] | None = None

    def port_lists(self) -> dict[str, range]:
        """The ports of each task by label."""
        return port_lists(self.ports or {})


def options_of(data: Mapping[str, Any], role: str) -> RoleOptions:
    """The options of a role in the data of a job that `Job.from_mapping` has read; what is not a number is left out."""
    spec = data["taskRoles"][role]
    container, resources = spec.get("extraContainerOptions"), spec["resourcePerInstance"]
    container = container if isinstance(container, Mapping) else {}
    ports = resources.get("ports")
    shm = container.get("shmMB")
    return RoleOptions(
        shm=shm if isinstance(shm, int) and shm > 0 else 512,
        infiniband=container.get("infiniband") is True,
        ports={str(key): port for key, port in ports.items() if isinstance(port, int) and port > 0}
        if isinstance(ports, Mapping)
        else {},
    )


def environment(name: str, user: str, job: Job, role: TaskRole, options: Mapping[str, RoleOptions]) -> list[Json]:
    """The variables of a role's containers that are known before they start; `name` is that of the `PaiJob`."""
    values: dict[str, str] = {
        "PAI_JOB_NAME": f"{user}~{job.name}",
        "PAI_USER_NAME": user,
        "PAI_TASK_ROLE_COUNT": str(len(job.roles)),
        "PAI_TASK_ROLE_LIST": ",".join(role.name for role in job.roles),
        "PAI_CURRENT_TASK_ROLE_NAME": role.name,
        "PAI_WORK_DIR": "/root",
    }
    for task_role in job.roles:
        own, resources = options[task_role.name], task_role.resources
        values[f"PAI_TASK_ROLE_TASK_COUNT_{task_role.name}"] = str(task_role.instances)
        values[f"PAI_RESOURCE_{task_role.name}"] = f"{resources.gpu},{resources.cpu},{resources.memory},{own.shm}"
        values[f"PAI_MIN_FAILED_TASK_COUNT_{task_role.name}"] = _count(task_role.completion, "min_failed")
        values[f"PAI_MIN_SUCCEEDED_TASK_COUNT_{task_role.name}"] = _count(task_role.completion, "min_succeeded")
    ports = options[role.name].port_lists()
    if ports:
        listed = ";".join(f"{label}:{','.join(map(str, row))}" for label, row in ports.items())
        values["PAI_CONTAINER_HOST_PORT_LIST"] = f"{listed};"
        values["PAI_CURRENT_CONTAINER_PORT"] = values["PAI_CONTAINER_HOST_PORT"] = str(next(iter(ports.values()))[0])
        if "ssh" in ports:
            values["PAI_CONTAINER_SSH_PORT"] = str(ports["ssh"][0])
    variables: list[Json] = [{"name": key, "value": value} for key, value in values.items()]
    # Cells without a device are numbered, too: NVIDIA's runtime would hand out the devices of those numbers.
    devices = _field("NVIDIA_VISIBLE_DEVICES", f"metadata.annotations['{ISOLATION}']")
    variables += [devices if role.resources.gpu else {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    variables += [_field(key, "status.podIP") for key in ("PAI_CURRENT_CONTAINER_IP", "PAI_CONTAINER_HOST_IP")]
    return [*variables, {"name": "PAI_JOB_OBJECT", "value": name}]


def _field(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _count(completion: Completion, key: str) -> str:
    number: int | None = getattr(completion, key)
    return str(-1 if number is None else number)


def commands_script(commands: tuple[str, ...]) -> str:
    """The commands one after the other until one fails, all in one shell."""
    parts = (f"{{\n{command}\n}}\npai_code=$?; [ $pai_code -eq 0 ] || exit $pai_code\n" for command in commands)
    return "".join(parts)


def runtime_script(name: str, job: Job, attempt: int, options: Mapping[str, RoleOptions], before: str = "") -> str:
    """What a container runs: addresses and ports of all tasks, then the commands with bash, or sh where it has none.

    `before` are commands of plugins that come between.
    """
    lines = ["#!/bin/sh", _HEAD % {"seconds": BARRIER if job.gang else 0}]
    small = sum(role.instances for role in job.roles) <= MOST_ADDRESSES
    for role in job.roles:
        ports = options[role.name].port_lists()
        words = [f"{label}={','.join(map(str, row))}" for label, row in ports.items()]
        if small:
            prefix = work_name(name, role.name, attempt)
            lines.append(f"pai_role {role.name} {role.instances} {prefix} {' '.join(words)}".rstrip())
    return "\n".join([*lines, *([before] if before else []), _TAIL])


def board_script(board: TensorBoard | None) -> str:
    """The part that starts TensorBoard in the first task of its roles, before the job's own commands."""
    if board is None:
        return ""
    return "\n".join(
        [
            _BOARD % {"port": board.port},
            *(
                f'[ "$PAI_CURRENT_TASK_ROLE_NAME:$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX" = {role}:0 ] && '
                f"pai_board {board.command()}"
                for role in board.roles
            ),
        ]
    )


_BOARD: Final = """\
# TensorBoard ends with the task; a task whose image has none runs without it
pai_board() {
  if command -v tensorboard >/dev/null 2>&1; then pai_program=tensorboard
  elif python3 -c 'import tensorboard' >/dev/null 2>&1; then pai_program='python3 -m tensorboard.main'
  else echo "paictl: no TensorBoard: this image has none (pip install tensorboard)"; return; fi
  $pai_program "$@" >"${TMPDIR:-/tmp}/tensorboard.log" 2>&1 &
  echo "paictl: TensorBoard starts on port %(port)s: paictl job open $PAI_JOB_NAME --port tensorboard"
}"""
_HEAD: Final = (
    """\
# waits for the addresses of all tasks (of a gang: for at most %(seconds)s s), says them as OpenPAI's runtime does
pai_until=$(( $(date +%%s) + %(seconds)s ))
pai_address() {
  while :; do
    # ahosts asks for both kinds of addresses at once. hosts also asks the name servers of the machines for the kind
    # that a pod lacks, which takes seconds where these do not answer; but some images have nothing else.
    pai_found=$({ getent ahosts "$1" || getent hosts "$1"; } 2>/dev/null |
      { read -r pai_ip pai_rest && echo "$pai_ip"; })
    [ -n "$pai_found" ] && { echo "$pai_found"; return; }
    command -v getent >/dev/null 2>&1 && [ "$(date +%%s)" -lt "$pai_until" ] || { echo "$1"; return; }
    sleep 1
  done
}
pai_role() {
  pai_name=$1; pai_count=$2; pai_prefix=$3; shift 3; pai_index=0
  while [ "$pai_index" -lt "$pai_count" ]; do
    # its own address is known; a job of one task has no Service, so that no name leads to it
    if [ "$pai_name $pai_index" = "$PAI_CURRENT_TASK_ROLE_NAME $PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX" ]
    then pai_found=$PAI_CURRENT_CONTAINER_IP
    else pai_found=$(pai_address "$pai_prefix-$pai_index.$PAI_JOB_OBJECT.SPACE.svc")
    fi
    export "PAI_HOST_IP_${pai_name}_$pai_index=$pai_found"
    for pai_port in "$@"; do
      export "PAI_PORT_LIST_${pai_name}_${pai_index}_${pai_port%%%%=*}=${pai_port#*=}"
    done
    pai_index=$((pai_index + 1))
  done
}"""
).replace("SPACE", JOBS_NAMESPACE)
_TAIL: Final = f"""\
export PAI_TASK_INDEX="$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"
if command -v bash >/dev/null 2>&1; then pai_shell=bash; else pai_shell=sh; fi
# The first process of a container is deaf to SIGTERM unless it listens: so it waits, hands on to all others that they
# are to end, and stays until they have: with it all are killed.
"$pai_shell" {FOLDER}/{COMMANDS} &
pai_child=$!; pai_ends=
if [ "$$" -eq 1 ]; then trap 'pai_ends=1; kill -TERM -1' TERM; else trap 'kill -TERM "$pai_child"' TERM; fi
while :; do
  wait "$pai_child"; pai_code=$?
  kill -0 "$pai_child" 2>/dev/null || break
done
while [ -n "$pai_ends" ] && kill -0 -1 2>/dev/null; do sleep 0.1 || sleep 1; done
exit "$pai_code"
"""
