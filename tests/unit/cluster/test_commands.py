"""The log of an embedded cluster: every command is read from its line as it was written, also from older lines."""

from __future__ import annotations

import json

import pytest

from paictl.cluster.embedded import commands
from paictl.cluster.interface import JobRequest, MachineSpec, NodeChange, NodeRole
from paictl.units import Millis

MACHINE = MachineSpec("worker1", "10.0.0.1", NodeRole.WORKER, device_type="V100", devices=4)
HOUR = Millis(3_600_000)
COMMANDS = (
    commands.BringUp("lab", ("rest-server",), (MACHINE,)),
    commands.Submit((JobRequest("ann", {"name": "train"}, None, "test", Millis(5000)),)),
    commands.StopJob("ann~train"),
    commands.TagJob("ann~train", ("good", "new"), ()),
    commands.SetNode("worker1", NodeChange.CORDON),
    commands.SetDevices("worker1", NodeChange.FAIL, (0, 3)),
    commands.AddNode(MACHINE),
    commands.RemoveNode("worker1"),
    commands.Push({"layout.yaml": "a: 1\n"}, "first"),
    commands.SetService("rest-server", True),
    commands.RestartServices(("rest-server", "hivedscheduler")),
    commands.WipeService("postgresql"),
    commands.Tick(HOUR),
    commands.RunOut(),
    commands.AddWindow(("worker1",), HOUR, None, "fans", Millis(0), "new fans"),
    commands.AddWindow(("worker1", "worker2"), HOUR, Millis(5), "room", Millis(0), "", hold=True),
    commands.RemoveWindow("fans"),
    commands.EvictGang("ann~train", "", "to make room"),
    commands.NotePlan({"vc1": 7}, HOUR),
    commands.NoteFailure("vc1"),
    commands.AddReservation(HOUR, Millis(5), "vc1", 2, "V100-NODE", (), "weekly", "course", "a course"),
    commands.AddReservation(HOUR, None, "", 0, "", ("worker1",), "once", "", ""),
    commands.RemoveReservation("course"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.do)
def test_a_command_is_read_as_it_was_written(command: commands.LoggedCommand) -> None:
    assert commands.read(json.loads(json.dumps(command.line()))) == command


def test_every_command_is_among_them() -> None:
    assert {type(command) for command in COMMANDS} == set(commands.LoggedCommand.__subclasses__())


def test_what_a_line_does_not_say_is_as_it_was_before_it_could() -> None:
    line = {"do": "add-window", "nodes": ["worker1"], "span": 9, "start": 0, "name": "fans", "notice": 0, "reason": ""}
    command = commands.read(line)
    assert isinstance(command, commands.AddWindow)
    assert (command.nodes, command.hold) == (("worker1",), False)


@pytest.mark.parametrize("line", [{"do": "dance"}, {"do": "stop-job"}, {"do": "set-node", "name": "a", "change": "b"}])
def test_what_is_no_command_is_refused(line: commands.Line) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        commands.read(line)
