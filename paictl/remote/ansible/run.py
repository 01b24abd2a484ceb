"""One playbook after the other on the hosts of an inventory, over connections that are shared."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote import require_deploy
from paictl.remote.ansible.collecting import Collector, PlaybookResult, TaskListener, hint_for
from paictl.remote.ansible.environment import ansible_environment
from paictl.remote.inventory import Host, Inventory, known_hosts_file
from paictl.remote.private import MARK, end_marked, private_folder, write_private
from paictl.remote.ssh.bastion import BastionError, jump_options, jump_setting

_LOCALE: Final = "C.UTF-8"
_PAUSE: Final = 0.25
"""Seconds between two looks of ansible-runner at whether it should stop."""


@frozen
class PlaybookOptions:
    """How to run a playbook: `check` changes nothing and tells what would change; `limit` and `tags` as Ansible has
    them; `timeout` in seconds for all of it; `stop` is asked four times a second whether to end it; `forks` at least.
    """

    check: bool = False
    limit: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    timeout: int = 3600
    connect: int = 10
    forks: int = 0
    stop: Callable[[], bool] = lambda: False


@frozen
class Trust:
    """The host keys that are trusted, and the wheels for sites without a package registry."""

    known_hosts: Path = field(default_factory=known_hosts_file)
    wheels: Path | None = None


class AnsibleSession:
    """Runs playbooks; connections to hosts stay open until it ends. To be used in a `with`.

    `run_folder` gets a folder for each playbook with a log for each host, and nothing secret. Raises `PaictlError` if
    Ansible cannot be set up, or `ssh` is not there.
    """

    def __init__(
        self,
        inventory: Inventory,
        run_folder: Path,
        secrets: Mapping[str, str] | None = None,
        trust: Trust | None = None,
    ) -> None:
        self.inventory, self._run_folder = inventory, run_folder
        self._secrets, self._trust = dict(secrets or {}), trust or Trust()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        require_deploy()
        if shutil.which("ssh") is None:
            raise PaictlError("ssh is not installed here", hint="on Debian and Ubuntu: apt install openssh-client")
        self._bin = ansible_environment(self._trust.wheels)
        self._private = self._stack.enter_context(private_folder())
        self._stack.callback(_end_connections, self._private / "cp")
        write_private(self._private / "ansible.cfg", "")
        write_private(self._private / "secrets.yml", _yaml_of_secrets(self._all_secrets()))
        for name in ("cp", "tmp", "home"):
            (self._private / name).mkdir(mode=0o700)
        try:
            self._reach_bastion()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _reach_bastion(self) -> None:
        """Open the connection that all hosts share: a bastion's sshd refuses a burst of new ones."""
        bastion = self.inventory.login.bastion
        if bastion is None:
            return
        socket, log_file = self._private / "bastion", self._private / "bastion.log"
        options = jump_options(self.inventory.login, self._trust.known_hosts, control=socket)
        self._stack.callback(_end_connection, socket)
        words = ["ssh", "-fN", "-o", "ControlMaster=yes", *options]
        environment = {**os.environ, MARK: str(self._private)}
        with log_file.open("wb") as log:  # no pipe: the ssh process in the background would hold it open
            done = subprocess.run(  # noqa: S603 - ours
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, check=False
            )
        if done.returncode:
            lines = log_file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            reason = lines[-1].strip() if lines else text("it says no reason")
            trying = text(
                "try: ssh -p {port} {user}@{address}", port=bastion.port, user=bastion.user, address=bastion.address
            )
            raise BastionError(
                text("bastion {bastion}: {reason}", bastion=bastion.place, reason=reason),
                hint=hint_for(reason) or trying,
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _all_secrets(self) -> dict[str, str]:
        login = self.inventory.login
        ways = {"ansible_password": login.password, "ansible_become_password": login.for_sudo}
        return {**{name: value for name, value in ways.items() if value is not None}, **self._secrets}

    def run(
        self,
        playbook: Path,
        extra_vars: Mapping[str, Any] | None = None,
        listen: TaskListener = lambda _: None,
        options: PlaybookOptions = PlaybookOptions(),
    ) -> PlaybookResult:
        """Run a playbook to its end; what goes wrong on hosts is in the result.

        Whoever interrupts it (Ctrl-C) ends its workers too; which tasks may be half done is told before.
        """
        import ansible_runner

        folder = self._new_folder(playbook.stem)
        raw = Path(tempfile.mkdtemp(prefix="", dir=self._private))
        (raw / "inventory.json").write_text(json.dumps(inventory_data(self.inventory)), encoding="utf-8")
        (raw / "vars.json").write_text(json.dumps(dict(extra_vars or {})), encoding="utf-8")
        shutil.copy(raw / "inventory.json", folder / "inventory.json")
        names = options.limit or tuple(host.name for host in self.inventory)
        collector = Collector(names, folder / "hosts", self._all_secrets().values(), listen)
        runner = ansible_runner.interface.init_runner(
            private_data_dir=str(raw),
            playbook=str(playbook.resolve()),
            inventory=str(raw / "inventory.json"),
            project_dir=str(playbook.resolve().parent),
            cmdline=shlex.join(self._arguments(raw, options)),
            envvars=self._environment(options),
            quiet=True,
            settings={"pexpect_timeout": _PAUSE},
            suppress_env_files=True,
            timeout=options.timeout,
            event_handler=collector.take,
            cancel_callback=options.stop,
        )
        _forget_settings_of_user(runner.config.env, self._environment(options))
        finished = False
        try:
            runner.run()
            finished = not (runner.canceled or runner.timed_out)
        finally:
            if not finished:
                end_marked(f"{MARK}={self._private}")
                outcomes = collector.outcomes()
            shutil.rmtree(raw, ignore_errors=True)
        outcomes = outcomes if not finished else collector.outcomes()
        stopped = _why_stopped(runner, options)
        if not collector.ran:
            (folder / "output.txt").write_text(collector.output, encoding="utf-8")
        return PlaybookResult(outcomes, collector.ran, folder, collector.output, stopped)

    def _new_folder(self, name: str) -> Path:
        for number in range(1, 1000):
            folder = self._run_folder / (name if number == 1 else f"{name}-{number}")
            try:
                folder.mkdir(mode=0o700, parents=True)
            except FileExistsError:
                continue
            return folder
        raise PaictlError(text("{name} ran too many times", name=name), where=str(self._run_folder))

    def _arguments(self, raw: Path, options: PlaybookOptions) -> list[str]:
        words = ["-e", f"@{raw / 'vars.json'}", "-e", f"@{self._private / 'secrets.yml'}"]
        words += ["--forks", str(max(options.forks, len(self.inventory), 5))]
        words += ["--check", "--diff"] if options.check else []
        words += ["--limit", ",".join(options.limit)] if options.limit else []
        words += ["--tags", ",".join(options.tags)] if options.tags else []
        return words

    def _environment(self, options: PlaybookOptions) -> dict[str, str]:
        private = self._private
        return {
            MARK: str(private),
            "PATH": f"{self._bin}:{os.environ.get('PATH', os.defpath)}",
            "LC_ALL": _LOCALE,
            "LANG": _LOCALE,
            "ANSIBLE_CONFIG": str(private / "ansible.cfg"),
            "ANSIBLE_HOME": str(private / "home"),
            "ANSIBLE_LOCAL_TEMP": str(private / "tmp"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(private / "cp"),
            "ANSIBLE_HOST_KEY_CHECKING": "True",
            "ANSIBLE_SSH_ARGS": ssh_arguments(
                self._trust.known_hosts, options.connect, self.inventory, private / "bastion"
            ),
            "ANSIBLE_PIPELINING": "True",
            "ANSIBLE_TIMEOUT": str(options.connect),
            "ANSIBLE_NOCOLOR": "True",
            "ANSIBLE_NO_TARGET_SYSLOG": "True",  # modules would log what files they write, passwords and all
            "ANSIBLE_PYTHON_INTERPRETER": "auto_silent",
            "ANSIBLE_DEPRECATION_WARNINGS": "False",
            "ANSIBLE_LOCALHOST_WARNING": "False",
        }


def inventory_data(inventory: Inventory) -> dict[str, Any]:
    """An inventory as Ansible reads it, without secrets."""
    groups: dict[str, dict[str, Any]] = {}
    for host in inventory:
        for name in host.groups:
            groups.setdefault(name, {"hosts": {}})["hosts"][host.name] = {}
    shared = dict(inventory.variables)
    if inventory.login.key_file is not None:
        shared["ansible_ssh_private_key_file"] = str(inventory.login.key_file.resolve())
    hosts = {host.name: _variables(host) for host in inventory}
    return {"all": {"hosts": hosts, "vars": shared, "children": groups}}


def _variables(host: Host) -> dict[str, Any]:
    reach = {"ansible_host": host.address, "ansible_port": host.port, "ansible_user": host.user}
    return {**host.variables, **reach}


def ssh_arguments(known_hosts: Path, connect: int, inventory: Inventory, control: Path | None = None) -> str:
    """What Ansible's ssh is told: our host keys and no others, shared connections, an end to silence.

    `control` is the socket of the connection to the bastion, which is used where there is a bastion.
    """
    escaped = str(known_hosts).replace("%", "%%")
    settings = [
        f'UserKnownHostsFile="{escaped}"',
        "GlobalKnownHostsFile=/dev/null",
        "StrictHostKeyChecking=yes",
        "UpdateHostKeys=no",
        "ControlMaster=auto",
        "ControlPersist=60s",
        "ServerAliveInterval=5",
        "ServerAliveCountMax=3",
        f"ConnectTimeout={connect}",
        *jump_setting(jump_options(inventory.login, known_hosts, connect=connect, control=control)),
    ]
    if inventory.login.key_file is not None:
        settings.append("IdentitiesOnly=yes")
    return shlex.join(["-F", "/dev/null", *(word for setting in settings for word in ("-o", setting))])


def _end_connections(sockets: Path) -> None:
    """End the connections that were kept open; their processes bear no mark, for ssh writes its title over it."""
    for socket in sockets.iterdir():
        _end_connection(socket)


def _end_connection(socket: Path) -> None:
    command = ["ssh", "-F", "/dev/null", "-o", f"ControlPath={socket}", "-O", "exit", "host"]
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, timeout=2, check=False)  # noqa: S603 - ours


def _yaml_of_secrets(secrets: Mapping[str, str]) -> str:
    """Variables that Ansible never evaluates as templates."""
    lines = [f"{name}: !unsafe {json.dumps(value, ensure_ascii=False)}" for name, value in secrets.items()]
    return "\n".join(["---", *lines]) + "\n" if lines else "--- {}\n"


def _forget_settings_of_user(environment: dict[str, str], ours: Mapping[str, str]) -> None:
    """Take out settings for Ansible that are meant for other playbooks than ours."""
    keep = {*ours, "ANSIBLE_CALLBACK_PLUGINS", "ANSIBLE_STDOUT_CALLBACK", "ANSIBLE_RETRY_FILES_ENABLED"}
    for name in [name for name in environment if name.startswith("ANSIBLE_") and name not in keep]:
        del environment[name]


def _why_stopped(runner: Any, options: PlaybookOptions) -> str:
    if runner.timed_out:
        return text("took longer than {seconds} s", seconds=options.timeout)
    return text("was stopped") if runner.canceled else ""
