"""`paictl scheduler`: the scheduler core on recorded operations.

Heavy imports happen inside the commands, so that ``paictl --help`` stays fast.
"""

from __future__ import annotations

import gc
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from paictl.cells.spec import SpecError
from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.scheduler.input import STDIN, load_dump, load_spec, located, operations, parse_yaml
from paictl.config.reading.source import printable
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.scheduler.errors import InvariantError
from paictl.scheduler.explain.pod import PodHistory, PodSituation, report, report_data, report_lines
from paictl.scheduler.invariants import validate as check
from paictl.scheduler.replay import Replayer

EXAMPLES = """
    paictl scheduler replay --config hived.yaml operations.jsonl
    paictl scheduler explain --config hived.yaml operations.jsonl train-0
"""

app = App(help="Query the scheduler core: replay operations, explain waiting pods.", epilog=EXAMPLES)

ConfigOption = Annotated[Path, typer.Option(help="HiveD configuration (YAML): physicalCluster and virtualClusters.")]
OpsArgument = Annotated[
    Path | None, typer.Argument(help="Operations, one JSON object per line (default: standard input).")
]


@app.callback()
def scheduler() -> None:
    """Query the scheduler core: replay operations, explain waiting pods."""


@app.command(
    epilog="""
    paictl scheduler replay --config hivedscheduler.yaml ops.jsonl
    paictl scheduler replay --config hivedscheduler.yaml --load paictl-dump.json --validate
"""
)
def replay(
    config: ConfigOption,
    ops: OpsArgument = None,
    *,
    validate: Annotated[bool, typer.Option(help="Check all invariants after each operation.")] = False,
    dump: Annotated[Path, typer.Option(help="Where to write the state if an invariant breaks.")] = Path(
        "paictl-dump.json"
    ),
    load: Annotated[Path | None, typer.Option(help="Start from the state in a dump.")] = None,
) -> None:
    """Run operations and print one JSON result per line.

    The exit code is 0 if all operations were carried out (even if some were refused), 2 if the input is unusable
    or an invariant broke; then the last operations and the state are in the dump, which `replay` can load.
    """
    replayer = _replayer(config, validate=validate)
    if load is not None:
        try:
            replayer.restore(load_dump(load))
        except PaictlError as error:
            raise PaictlError(error.message, where=error.where or str(load), hint=error.hint) from None
    encode = json.JSONEncoder(separators=(",", ":")).encode
    for number, operation in operations(ops):
        try:
            result = replayer.run(operation)
        except Exception as error:  # an InvariantError, or another bug of ours: what led to it must not be lost
            raise _stopped(dump, replayer, ops, number, error) from error
        _write(f"{encode(result)}\n")


def _write(line: str) -> None:
    """Write a line to stdout at once: a program that drives us line by line waits for the answer."""
    try:
        sys.stdout.write(line)
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # no error: the reader went away
    except OSError as error:
        raise PaictlError(
            text("the output cannot be written: {reason}", reason=error.strerror), hint="free some space"
        ) from None


def _stopped(dump: Path, replayer: Replayer, ops: Path | None, number: int, error: Exception) -> PaictlError:
    """Write the dump after a bug; returns what to say."""
    reason = str(error) if isinstance(error, InvariantError) else f"{type(error).__name__}: {error}"
    where = f"{ops or STDIN}:{number}"
    try:
        dump.write_text(json.dumps({"error": reason, **replayer.dump()}, indent=1), encoding="utf-8")
    except Exception as failed:
        why = failed.strerror if isinstance(failed, OSError) else f"{type(failed).__name__}: {failed}"
        hint = text("the dump could not be written to {dump} ({why}): run again with --dump FILE", dump=dump, why=why)
    else:
        hint = text(
            "this is a bug in paictl: report it with {dump}, which has the state and the last operations", dump=dump
        )
    return PaictlError(text("the scheduler has stopped: {reason}", reason=reason), where=where, hint=hint)


class ExplainFormat(StrEnum):
    """Forms of an explanation."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


@app.command(epilog="paictl scheduler explain --config hived.yaml operations.jsonl train-0")
def explain(
    config: ConfigOption,
    ops: Annotated[Path, typer.Argument(help="Operations, one JSON object per line.")],
    pod: Annotated[str, typer.Argument(help="Uid or name of a pod.")],
    *,
    output: Annotated[ExplainFormat, typer.Option("--output", "-o", help="Output format.")] = ExplainFormat.TEXT,
) -> None:
    """Show what becomes of a pod after some operations; if it waits, why, and what would let it run now.

    The exit code is 0 if it runs or could, 1 if it does not, 2 if the input is unusable.
    """
    history = PodHistory(_replayer(config, validate=False))
    try:
        history.run(operations(ops))
        result = report(history, pod)
    except InvariantError as error:
        hint = "this is a bug in paictl: `paictl scheduler replay` on the same operations writes a dump to report"
        message = text("the scheduler has stopped: {reason}", reason=error)
        raise PaictlError(message, where=str(ops), hint=hint) from error
    if output is ExplainFormat.TEXT:
        console.write("\n".join(printable(console.localized(line)) for line in report_lines(result)))
    else:
        console.write_data(report_data(result), console.Output(output))
    if result.situation not in (PodSituation.RUNNING, PodSituation.READY):
        raise typer.Exit(1)


def _replayer(config: Path, *, validate: bool) -> Replayer:
    """A replayer for a configuration file; `restart` finds other configurations in the same folder."""
    try:
        replayer = Replayer(
            load_spec(config),
            load=lambda name: load_spec(config.parent / name),
            parse=parse_yaml,
            check=(lambda engine: check(engine.state)) if validate else None,
        )
    except SpecError as error:
        raise located(error, config) from None
    gc.collect()
    gc.freeze()  # the trees live as long as the process: the collector need not walk them again and again
    return replayer


if __name__ == "__main__":
    from paictl.cli.main import main

    main(["scheduler", *sys.argv[1:]])
