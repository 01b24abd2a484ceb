"""All checks on all hosts: the facts are gathered in one round trip a host, then judged.

`paictl deploy check` asks for all facts and judges by all checks; `paictl deploy apply` gathers in its own look at the
machines, and judges by those checks that take no time. Which these are is said here, and nowhere else is judged.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Deployment, Machine, Role, hosts_of
from paictl.deploy.preflight import gpu_checks, host_checks, reach_checks
from paictl.deploy.preflight.host_checks import ETCD, FOLDERS, MASTER_PORTS, MODULES, SYSCTLS, WORKER_PORTS
from paictl.deploy.preflight.node_checks import PromisedDevices, check_node, nodes_in, promise_of
from paictl.deploy.preflight.verdict import Check, DesiredHost, Facts, Level, PreflightVerdict, fail, fine, warn
from paictl.errors import ExitCode
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.ssh.fleet import CommandOptions, Fleet, Listener
from paictl.remote.ssh.link import SshOptions
from paictl.remote.ssh.results import CommandStatus, HostResult
from paictl.resources import resource_folder

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "files": ("masters", "password"),
    "reach": ("ssh", "sudo", "python", "node", *reach_checks.CHECKS),
    "host": (*host_checks.CHECKS, "identity"),
    "gpu": tuple(gpu_checks.CHECKS),
}
"""The checks by group, in the order in which they are shown."""

IGNORED: Final[Mapping[str, tuple[str, ...]]] = {
    "Mem": ("memory",),
    "NumCPU": ("cpu",),
    "Swap": ("swap",),
    "SystemVerification": ("os", "kernel", "cgroup", "modules"),
}
"""Which of our checks an error of kubeadm's own stands for, where config.yaml says to ignore it; ports by prefix."""

CLUSTER: Final = "cluster"
"""What stands for a host where a check is about all of them."""

_JUDGED: Final[Mapping[str, Check]] = {**reach_checks.CHECKS, **host_checks.CHECKS, **gpu_checks.CHECKS}
SLOW: Final = frozenset({"fsync", "names", "api"})
"""Checks that take seconds on a host: only `deploy check` makes them."""
MENDED: Final = frozenset({"swap"})
"""What `apply` mends by itself."""
ONCE: Final = frozenset({"disk"})
"""What only matters while programs and images have to go there still."""
_NO_PYTHON: Final = 127
_TIMEOUT: Final = 60.0
_FIND: Final = (
    "for p in python3 /usr/libexec/platform-python; do command -v $p >/dev/null 2>&1 && exec $p -B - {wish}; done; "
    "echo 'there is no python3' >&2; exit 127"
)


@frozen
class HostChecks:
    """What all checks said of a host, by check in their order; empty for one that did not answer, but for `ssh`."""

    host: str
    verdicts: Mapping[str, PreflightVerdict]

    @property
    def answered(self) -> bool:
        """Whether the host could be asked at all."""
        return "ssh" not in self.verdicts or self.verdicts["ssh"].level is not Level.FAIL

    @property
    def worst(self) -> Level:
        """The worst of its verdicts."""
        levels = {verdict.level for verdict in self.verdicts.values()}
        return next((level for level in (Level.FAIL, Level.WARN) if level in levels), Level.OK)


@frozen
class PreflightReport:
    """What was found on all hosts, in the order of the lists; `cluster` are checks of all of them together."""

    cluster: HostChecks
    hosts: tuple[HostChecks, ...]

    @property
    def failures(self) -> tuple[tuple[str, str, PreflightVerdict], ...]:
        """(host, check, verdict) of everything that failed or warns, failures first."""
        failures = [
            (checks.host, check, verdict)
            for level in (Level.FAIL, Level.WARN)
            for checks in (self.cluster, *self.hosts)
            for check, verdict in checks.verdicts.items()
            if verdict.level is level
        ]
        return tuple(failures)

    @property
    def exit_code(self) -> ExitCode:
        """0 nothing failed, 1 something did, 3 only some hosts answered, 4 none did."""
        answered = [host for host in self.hosts if host.answered]
        if len(answered) < len(self.hosts):
            return ExitCode.PARTIAL if answered else ExitCode.UNREACHABLE
        failed = any(checks.worst is Level.FAIL for checks in (self.cluster, *self.hosts))
        return ExitCode.NEGATIVE if failed else ExitCode.OK


def check_hosts(
    deployment: Deployment,
    options: SshOptions,
    promises: Mapping[str, PromisedDevices] | None = None,
    heard: Callable[[str], object] = lambda _: None,
) -> PreflightReport:
    """Check all machines of a deployment; `heard` gets the name of each once it has answered or failed.

    Nothing is changed anywhere. Raises `PaictlError` only for what is wrong here, as a key file that is not there.
    """
    inventory = hosts_of(deployment)
    script = program()
    with Fleet(inventory, options, Listener(result=lambda result: heard(result.host))) as fleet:
        lines = {
            machine.name: _FIND.format(wish=shlex.quote(json.dumps(asked(deployment, machine))))
            for machine in deployment.machines
        }
        results = fleet.run_each(lines, stdin=script, manner=CommandOptions(sudo=True, timeout=_TIMEOUT))
    return judged(deployment, results, promises or {})


def program() -> bytes:
    """The program that tells what a host is."""
    return (resource_folder("playbooks") / "module_utils" / "paictl_gather.py").read_bytes()


def asked(deployment: Deployment, machine: Machine, *, quick: bool = False) -> dict[str, Any]:
    """What paictl_gather on a machine is told; nothing secret. `quick` leaves out what the slow checks need."""
    master = machine.role is Role.MASTER
    others = [] if quick else [[master.address, 6443] for master in deployment.masters if master is not machine]
    return {
        "address": machine.address,
        "folders": list(FOLDERS),
        "fsync": ETCD if master and not quick else None,
        "names": not quick,
        "ports": list(MASTER_PORTS if master else WORKER_PORTS),
        "modules": list(MODULES),
        "sysctls": list(SYSCTLS),
        "reach": others,
    }


def judged(
    deployment: Deployment, results: Mapping[str, HostResult], promises: Mapping[str, PromisedDevices]
) -> PreflightReport:
    """What the results of the script say, by host name; pure."""
    facts = {name: fact for name, result in results.items() if (fact := facts_of(result)) is not None}
    hosts = (_judge(machine, deployment, results[machine.name], promises) for machine in deployment.machines)
    return PreflightReport(_of_cluster(deployment), _all_compared(hosts, deployment, facts))


def judged_quickly(
    deployment: Deployment, gathered: Mapping[str, HostFacts], clock: tuple[float, float]
) -> PreflightReport:
    """What the facts say that `apply` has gathered between two instants by the clock here, by host name; pure.

    A cluster that works is not refused for what is only wanted of new machines.
    """
    facts: dict[str, Facts] = {name: facts.host for name, facts in gathered.items()}
    hosts = []
    for machine in deployment.machines:
        fresh = bool(gathered[machine.name].lacks("programs", "images"))
        skipped = SLOW | MENDED | (frozenset() if fresh else ONCE)
        verdicts = _verdicts(facts[machine.name], _desired_host(machine, deployment, {}, clock), skipped)
        hosts.append(HostChecks(machine.name, _ignoring(verdicts, deployment.settings.ignored_checks)))
    return PreflightReport(_of_cluster(deployment), _all_compared(hosts, deployment, facts))


def facts_of(result: HostResult) -> Facts | None:
    """The facts that the script printed, or None."""
    if not result.ok:
        return None
    try:
        facts = json.loads(result.stdout)
    except ValueError:
        return None
    return facts if isinstance(facts, dict) else None


def _judge(
    machine: Machine, deployment: Deployment, result: HostResult, promises: Mapping[str, PromisedDevices]
) -> HostChecks:
    verdicts = _reached(result)
    facts = facts_of(result)
    if facts is None:
        return HostChecks(machine.name, verdicts)
    verdicts.update(_verdicts(facts, _desired_host(machine, deployment, promises, (result.sent, result.ended))))
    return HostChecks(machine.name, _ignoring(verdicts, deployment.settings.ignored_checks))


def _verdicts(facts: Facts, desired: DesiredHost, but: Collection[str] = ()) -> dict[str, PreflightVerdict]:
    return {name: check(facts, desired) for name, check in _JUDGED.items() if name not in but}


def _desired_host(
    machine: Machine, deployment: Deployment, promises: Mapping[str, PromisedDevices], clock: tuple[float, float]
) -> DesiredHost:
    promise = promise_of(promises, machine.name)
    settings = deployment.settings
    return DesiredHost(
        machine.name,
        machine.address,
        machine.role is Role.MASTER,
        settings.cluster,
        settings.swap_allowed,
        promise.devices,
        promise.leaves,
        promise.cpus,
        clock,
        settings.driver_by_service,
        instances=promise.instances,
        profile=promise.profile,
    )


def _reached(result: HostResult) -> dict[str, PreflightVerdict]:
    """The checks of the connection to a host: signed in, root, Python."""
    new = text("new host key trusted: {key}", key=result.new_key) if result.new_key else text("signed in")
    match result.reach:
        case CommandStatus.DONE if facts_of(result) is not None:
            return {
                "ssh": fine(new),
                "sudo": fine("root"),
                "python": fine(json.loads(result.stdout)["system"]["python"]),
            }
        case CommandStatus.DONE if result.code == _NO_PYTHON:
            no = fail(text("python3 not found"), "3.8+", "apt-get install -y python3 || dnf install -y python3")
            return {"ssh": fine(new), "sudo": fine("root"), "python": no}
        case CommandStatus.DONE:
            lines = result.stderr.strip().splitlines()
            reason = lines[-1] if lines else text("ended with code {code}", code=result.code)
            no = fail(
                reason, text("a working Python"), text("try there: {command}", command="python3 -c 'import json'")
            )
            return {"ssh": fine(new), "sudo": fine("root"), "python": no}
        case CommandStatus.NO_SUDO:
            return {"ssh": fine(new), "sudo": fail(result.message, text("root by sudo"), result.hint)}
    return {"ssh": fail(result.message, text("an answer over SSH"), result.hint)}


def _ignoring(verdicts: Mapping[str, PreflightVerdict], ignored: Iterable[str]) -> dict[str, PreflightVerdict]:
    """The verdicts, with those as warnings that config.yaml says to ignore."""
    words = tuple(ignored)
    mild = {check for word in words for check in IGNORED.get(word, ())}
    if any(word.startswith("Port-") for word in words):
        mild.add("ports")
    if "all" in words:
        mild = set(verdicts)
    return {
        name: replace(verdict, level=Level.WARN) if verdict.level is Level.FAIL and name in mild else verdict
        for name, verdict in verdicts.items()
    }


def _of_cluster(deployment: Deployment) -> HostChecks:
    count = len(deployment.masters)
    verdict = fine(str(count))
    if count % 2 == 0:
        fix = text("add a master to master.csv, or remove one")
        verdict = fail(
            str(count),
            text("use an odd number: {count} tolerate no more failures than {less}", count=count, less=count - 1),
            fix,
        )
    if not deployment.exposed:
        return HostChecks(CLUSTER, {"masters": verdict})
    found = text("other users of this machine can read the password in {file}", file=deployment.exposed)
    exposed = warn(found, text("only you can read it"), f"chmod 600 {shlex.quote(deployment.exposed)}")
    return HostChecks(CLUSTER, {"masters": verdict, "password": exposed})


def _all_compared(
    hosts: Iterable[HostChecks], deployment: Deployment, facts: Mapping[str, Facts]
) -> tuple[HostChecks, ...]:
    """What is to be judged by looking at the other hosts too: identity, MTU, and the nodes that the masters list."""
    machines = {machine.name: machine for machine in deployment.machines}
    nodes = nodes_in(facts.values())
    checks = []
    for host in hosts:
        own = facts.get(host.host)
        if own is None:
            checks.append(host)
            continue
        more = {"node": check_node(machines[host.host], own, nodes), "identity": _identity(host.host, facts)}
        checks.append(HostChecks(host.host, {**host.verdicts, **more, **_mtu(host, facts)}))
    return tuple(checks)


def _identity(name: str, facts: Mapping[str, Facts]) -> PreflightVerdict:
    """No two hosts have the same machine id or product uuid: Kubernetes tells nodes apart by them."""
    own = facts[name]
    for field, fix in (
        ("machine_id", "rm /etc/machine-id && systemd-machine-id-setup && reboot"),
        ("product_uuid", text("give the virtual machine its own UUID")),
    ):
        same = [other for other, fact in facts.items() if other != name and own[field] and fact[field] == own[field]]
        if same:
            finding = text("{what} is the same as on {others}", what=field.replace("_", " "), others=", ".join(same))
            return (fail if field == "machine_id" else warn)(finding, text("its own"), fix)
    return fine(text("its own")) if own["machine_id"] else fail(text("no machine id"), text("its own"), _SET_ID)


_SET_ID: Final = "systemd-machine-id-setup"


def _mtu(host: HostChecks, facts: Mapping[str, Facts]) -> dict[str, PreflightVerdict]:
    """Hosts with another MTU than most: large packets between them are lost without a word."""
    own = facts[host.host]["network"]["mtu"]
    sizes = Counter(fact["network"]["mtu"] for fact in facts.values() if fact["network"]["mtu"])
    if host.verdicts["mtu"].level is not Level.OK or len(sizes) < 2:
        return {}
    usual = max(sizes, key=lambda size: (sizes[size], size))
    if own == usual:
        return {}
    command = f"ip link set {facts[host.host]['network']['interface']} mtu {usual}"
    return {"mtu": warn(str(own), text("{mtu}, as the others", mtu=usual), command)}
