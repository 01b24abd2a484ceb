"""`paictl scheduler`: the scheduler core on recorded operations.

Heavy imports happen inside the commands, so that ``paictl --help`` stays fast.
"""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from paictl.cells.spec import ClusterSpec
    from paictl.scheduler.replay import Replayer

app = typer.Typer(no_args_is_help=True, help="Ask the scheduler core: replay operations, explain waiting pods.")

ConfigOption = Annotated[Path, typer.Option(help="HiveD configuration (YAML): physicalCluster and virtualClusters.")]
OpsArgument = Annotated[
    Path | None, typer.Argument(help="Operations, one JSON object a line; standard input if left out.")
]


@app.callback()
def scheduler() -> None:
    """Ask the scheduler core: replay operations, explain waiting pods."""


@app.command()
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
    """Carry out operations and print one JSON result a line.

    The exit code is 0 if all operations were carried out (also if some were refused), 2 if the input is unusable
    or an invariant broke; then the last operations and the state are in the dump, which `replay` can load.
    """
    from paictl.scheduler.errors import InvariantError

    replayer = _replayer(config, validate=validate)
    if load is not None:
        replayer.restore(json.loads(load.read_text(encoding="utf-8")))
    write, encode = sys.stdout.write, json.JSONEncoder(separators=(",", ":")).encode
    lines = sys.stdin if ops is None else ops.read_text(encoding="utf-8").splitlines()
    for number, operation in _operations(lines):
        try:
            result = replayer.run(operation)
        except InvariantError as error:
            _write_dump(dump, replayer, str(error))
            typer.echo(
                f"error: line {number}: {error}\nhint: the state and the last operations are in {dump}", err=True
            )
            raise typer.Exit(2) from error
        write(encode(result))
        write("\n")
        sys.stdout.flush()  # whoever drives us line by line waits for the answer


class Form(StrEnum):
    """Forms of an explanation."""

    TEXT = "text"
    JSON = "json"


@app.command(epilog="Example: paictl scheduler explain --config hived.yaml operations.jsonl train-0")
def explain(
    config: ConfigOption,
    ops: Annotated[Path, typer.Argument(help="Operations, one JSON object a line.")],
    pod: Annotated[str, typer.Argument(help="Uid or name of a pod.")],
    *,
    output: Annotated[Form, typer.Option("--output", "-o", help="Form of the result.")] = Form.TEXT,
) -> None:
    """Say what a pod does after some operations; if it waits, why, and what would let it run now.

    The exit code is 0 if it runs or could, 1 if it does not, 2 if the input is unusable.
    """
    from paictl.errors import PaictlError
    from paictl.scheduler.explain.pod import History, Situation, report, report_data, report_lines

    history = History(_replayer(config, validate=False))
    try:
        lines = ops.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise PaictlError(f"cannot read: {error.strerror}", where=str(ops)) from None
    history.run(_operations(lines))
    found = report(history, pod)
    text = json.dumps(report_data(found), indent=2) if output is Form.JSON else "\n".join(report_lines(found))
    typer.echo(text)
    if found.situation not in (Situation.RUNNING, Situation.READY):
        raise typer.Exit(1)


def _replayer(config: Path, *, validate: bool) -> Replayer:
    """A replayer for a configuration file; `restart` finds other configurations in the same folder."""
    import gc

    from paictl.scheduler.invariants import validate as check
    from paictl.scheduler.replay import Replayer

    replayer = Replayer(
        load_spec(config),
        load=lambda name: load_spec(config.parent / name),
        parse=_parse_yaml,
        check=(lambda engine: check(engine.state)) if validate else None,
    )
    gc.collect()
    gc.freeze()  # the trees live as long as the process: the collector need not walk them again and again
    return replayer


def _operations(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, object]]]:
    """The operations of a stream with their line numbers."""
    decode = json.loads
    for number, line in enumerate(lines, 1):
        if line.isspace() or not line:
            continue
        try:
            operation = decode(line)
        except ValueError as error:
            typer.echo(f"error: line {number}: not JSON: {error}", err=True)
            raise typer.Exit(2) from error
        if not isinstance(operation, dict):
            typer.echo(f"error: line {number}: expected an object", err=True)
            raise typer.Exit(2)
        yield number, operation


def load_spec(path: Path) -> ClusterSpec:
    """Read a configuration file; leaves with exit code 2 and one line if it is unusable."""
    import yaml

    from paictl.cells.spec import ClusterSpec
    from paictl.errors import PaictlError

    try:
        with path.open(encoding="utf-8") as stream:
            return ClusterSpec.from_mapping(yaml.load(stream, _safe_loader()))  # noqa: S506 (a safe loader)
    except (OSError, yaml.YAMLError, PaictlError) as error:
        typer.echo(f"error: {path}: {error}", err=True)
        raise typer.Exit(2) from error


def _parse_yaml(text: str) -> object:
    import yaml

    try:
        return yaml.load(text, _safe_loader())  # noqa: S506 (a safe loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error).replace("\n", " ")) from error


def _safe_loader() -> type:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _write_dump(path: Path, replayer: Replayer, error: str) -> None:
    path.write_text(json.dumps({"error": error, **replayer.dump()}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    app()
