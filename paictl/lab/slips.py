"""Slips in commands that any lab can tell without knowing them: a missing option or unit, an option too many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paictl.errors import ExitCode
from paictl.frozen import frozen
from paictl.lab.commandlog import FLAGS, OUTPUT_CUT, TypedCommand, lacking, means
from paictl.lab.manifest import Check, Step
from paictl.lab.observation import Observation


@frozen
class Slips:
    """What is wrong with the commands that were typed for a check; empty where nothing is."""

    lacks: tuple[str, ...] = ()
    """Options that the last command does not have, though its step gives them."""
    in_seconds: tuple[str, str] | None = None
    """A number that was typed without a unit for time to pass, and the span that the step gives."""
    overruled: tuple[str, str] | None = None
    """A job that was submitted with an option, and the option, which makes it another job than the check wants."""

    @property
    def is_old_file(self) -> bool:
        """Whether the file that the check reads is of an earlier run, because the last one wrote none."""
        return any(option.startswith("--jobs ") for option in self.lacks)


NO_SLIPS: Final = Slips()


def slips(observation: Observation, check: Check, step: Step, settled: int) -> Slips:
    """The slips that may be why a check of a step fails; `settled` commands were typed before the step began."""
    return Slips(
        _lacking(observation.typed, check, step),
        _in_seconds(observation.typed[settled:], step),
        _overruled(observation, check, step),
    )


_DONE: Final = frozenset({ExitCode.OK, ExitCode.NEGATIVE, *OUTPUT_CUT})
"""Exit codes of commands that were neither refused nor interrupted."""


def _lacking(typed: Sequence[TypedCommand], check: Check, step: Step) -> tuple[str, ...]:
    """What the last command lacks, if it was not refused and is one of the step's but for some options."""
    if not typed or typed[-1].exit not in _DONE:
        return ()
    line = typed[-1].line
    checked = (statement.says["command"] for statement in check.expect if statement.kind == "typed")
    patterns = [*checked, *step.commands]
    if any(means(pattern, line) for pattern in patterns):
        return ()
    return next((options for pattern in patterns if (options := _options(pattern, line))), ())


def _options(pattern: str, line: str) -> tuple[str, ...]:
    """What a command that did its work lacks: never the option that would have kept it from asking."""
    return tuple(option for option in lacking(pattern, line) if option not in FLAGS)


_TICK: Final = "paictl cluster tick "


def _in_seconds(typed: Sequence[TypedCommand], step: Step) -> tuple[str, str] | None:
    """``cluster tick 30`` is thirty seconds; a step that says 30m meant minutes."""
    given = [line.removeprefix(_TICK) for line in step.commands if line.startswith(_TICK)]
    spans = {span[:-1]: span for span in given if span[-1] in "mhd"}
    numbers = (command.line.removeprefix(_TICK) for command in typed)
    return next(((number, spans[number]) for number in numbers if number in spans), None)


_OVERRULING: Final = {"vc": "--vc", "priority": "--priority"}
"""By what a check wants of a job: the option of ``job submit`` that goes before its file."""


def _overruled(observation: Observation, check: Check, step: Step) -> tuple[str, str] | None:
    lines = [command.line for command in observation.typed if command.line.startswith("paictl job submit ")]
    for says in (statement.says for statement in check.expect if statement.kind == "job"):
        job = observation.job(says["name"])
        for key, option in _OVERRULING.items() if job is not None else ():
            differs = key in says and getattr(job, key) != says[key]
            typed = any(option in line and says["name"] in line for line in lines)  # not for another job
            given = any(option in line and says["name"] in line for line in step.commands)
            if differs and typed and not given:
                return says["name"], option
    return None
