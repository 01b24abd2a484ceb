"""The command: `python -m tools.hosts COMMAND ...` from the top of the tree, as root."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.hosts.artifacts import folder
from tools.hosts.base import base
from tools.hosts.debs import unpacked
from tools.hosts.lab import Lab, obstacle, sweep
from tools.hosts.shell import LabError

_DOING = {
    "cut": "pull the cable of host I",
    "drop": "lose all packets of host I silently",
    "heal": "end cut, drop and slow",
    "freeze": "no process of host I gets time",
    "thaw": "end freeze",
    "kill": "cut the power of host I",
    "start": "power on again",
    "reset": "a new machine in the place of host I",
    "rekey": "another SSH host key for host I",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.hosts", description="Test hosts; see docs/test-hosts.md.")
    parser.add_argument("--lab", default="dev", help="name of the lab (default: dev); labs do not see each other")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str, *arguments: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text)
        for argument in arguments:
            if argument in {"I", "COUNT", "SECONDS"}:
                command.add_argument(argument.lower(), type=int, metavar=argument)
            else:
                command.add_argument(argument.lower(), metavar=argument)
        return command

    add("check", "say whether hosts can run here")
    add("base", "make the base root, once")
    add("debs", "unpack Debian packages into the cache and print the folder").add_argument("packages", nargs="+")
    artifacts = add("artifacts", "pack the artifact folder, once, and print it")
    artifacts.add_argument("--stamp", default="", help="the version of Kubernetes, if another than the built one")
    artifacts.add_argument("--image", action="append", default=[], type=Path, help="add an image archive")
    add("up", "hosts 1 to COUNT", "COUNT")
    add("down", "end the lab and leave nothing")
    add("sweep", "remove labs whose owner has died")
    add("list", "hosts with address and state")
    for name, text in _DOING.items():
        add(name, text, "I")
    add("slow", "limit what host I receives, as in 256kbit", "I", "RATE")
    add("fill", "mount a full file system on a folder of host I", "I", "FOLDER")
    add("unfill", "end fill", "I", "FOLDER")
    add("clock", "set the clock of host I off by so many seconds", "I", "SECONDS")
    for name, text in (("exec", "run a command in host I as root, without SSH"), ("ssh", "SSH to host I as deploy")):
        add(name, text, "I").add_argument("words", nargs=argparse.REMAINDER)
    add("run", "run a command on the dev box").add_argument("words", nargs=argparse.REMAINDER)
    return parser


def _replace(words: list[str]) -> None:
    """Become this command, so that it has the terminal."""
    os.execvp(words[0], words)  # noqa: S606  # the very purpose


def _command(lab: Lab, asked: argparse.Namespace) -> None:
    match asked.command:
        case "up":
            lab.up(asked.count)
            _list(lab)
        case "list":
            _list(lab)
        case "down":
            lab.down()
        case "exec":
            _replace(lab.machine(asked.i).entering(asked.words))
        case "ssh":
            _replace(lab.ssh_words(asked.i, *asked.words))
        case "run":
            _replace([*lab.network.inside(), *asked.words])
        case _:
            _happen(lab, asked)


def _happen(lab: Lab, asked: argparse.Namespace) -> None:
    """What can happen to a machine or its cable: the methods have the names of the commands."""
    match asked.command:
        case "start" | "reset":
            getattr(lab, asked.command)(asked.i)
        case "cut" | "drop" | "heal":
            getattr(lab.network, asked.command)(asked.i)
        case "slow":
            lab.network.slow(asked.i, asked.rate)
        case "fill" | "unfill":
            getattr(lab.machine(asked.i), asked.command)(asked.folder)
        case "clock":
            lab.machine(asked.i).clock(asked.seconds)
        case _:
            getattr(lab.machine(asked.i), asked.command)()


def _list(lab: Lab) -> None:
    for machine in lab.machines():
        print(machine.name, machine.address, "on" if machine.leader() else "off")


def main(words: Sequence[str] | None = None) -> int:
    """Exit code 0, 1 where hosts cannot run here (`check`), 2 with a message where something failed."""
    asked = _parser().parse_args(words)
    try:
        match asked.command:
            case "check":
                reason = obstacle()
                print(reason or "test hosts can run here")
                return bool(reason)
            case "base":
                print(base())
            case "debs":
                print(unpacked(asked.packages))
            case "artifacts":
                print(folder(asked.stamp, asked.image))
            case "sweep":
                print(*sweep())
            case _:
                _command(Lab(asked.lab), asked)
    except LabError as error:
        print(f"hosts: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
