"""Prerequisites of a task role that need others."""

from __future__ import annotations

from paictl.workload.fields import Fields
from paictl.workload.plugins import callbacks_of


def test_a_chain_of_prerequisites_may_be_long() -> None:
    number = 5_000
    cmd = "com.microsoft.pai.runtimeplugin.cmd"
    chain = [
        {
            "name": f"p{i}",
            "type": "script",
            "plugin": cmd,
            "require": [f"p{(i + 1) % number}", "p0"],
            "callbacks": [{"event": "taskStarts", "commands": [f"run {i}"]}],
        }
        for i in range(number)
    ]
    callbacks = callbacks_of(Fields({"prerequisites": chain}, ""), "t", ["p0", "p1"])
    assert [callback.command for callback in callbacks] == [f"run {i}" for i in reversed(range(number))]
