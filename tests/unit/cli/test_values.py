"""Words of the command line are read as typer would read them, only without its library of models."""

from __future__ import annotations

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import pytest
import typer

from paictl.cli.command import App, Command, LazyGroup, global_options
from paictl.cli.helptext import is_example
from paictl.cli.run import _command_tree
from paictl.cli.values import BadWordError, Plain
from tests.conftest import ROOT


class Shape(StrEnum):
    ROUND = "round"
    FLAT = "flat"


def command(
    files: Annotated[list[Path], typer.Argument()],
    number: Annotated[int, typer.Option("--number", min=1, max=9)] = 1,
    share: Annotated[float | None, typer.Option("--share")] = None,
    shape: Annotated[Shape, typer.Option("--shape")] = Shape.ROUND,
    shapes: Annotated[list[Shape] | None, typer.Option("--shapes")] = None,
    name: Annotated[str | None, typer.Option("--name")] = None,
    flag: Annotated[bool, typer.Option("--flag")] = False,
) -> None:
    got.append((files, number, share, shape, shapes, name, flag))


got: list[Any] = []


@pytest.mark.parametrize(
    "words",
    [
        ["a"],
        ["a", "b", "--number", "9", "--share", "0.5", "--shape", "flat", "--name", "", "--flag"],
        ["a", "--shapes", "flat", "--shapes", "round", "--share", "1e3"],
        ["a", "--number", "0"],
        ["a", "--number", "ten"],
        ["a", "--number", "10"],
        ["a", "--share", "x"],
        ["a", "--shape", "Flat"],
        ["a", "--shapes", "x"],
        [],
    ],
)
def test_the_values_are_those_of_typer(words: list[str]) -> None:
    results: list[Any] = []
    for app in (App(), typer.Typer(add_completion=False)):
        app.command()(command)
        tree = typer.main.get_command(app)
        got.clear()
        try:
            with tree.make_context("x", list(words)) as context:
                tree.invoke(context)
        except typer.TyperException as error:
            results.append(("refused", getattr(error, "param", None) and error.param.name))  # type: ignore[attr-defined]
        else:
            results.append(got[0])
    assert results[0] == results[1]


def every_command(tree: Any, path: tuple[str, ...] = ()) -> Any:
    for name in tree.list_commands(None):
        found = tree.get_command(None, name)
        if isinstance(found, LazyGroup):
            yield from every_command(found, (*path, name))
        else:
            yield (*path, name), found


def test_every_command_is_ours_and_reads_plain_values() -> None:
    found = list(every_command(_command_tree()))
    assert len(found) > 60
    for path, one in found:
        assert isinstance(one, Command), path
        for param in one.params:
            assert isinstance(cast(Any, param).get_runtime_param(), Plain), (path, param.name)
        assert set(global_options()) <= set(one.params)


def test_every_command_says_what_it_does_and_answers_programs() -> None:
    for path, one in every_command(_command_tree()):
        assert one.help, path
        spellings = {name for param in one.params for name in param.opts}
        assert spellings & {"-o", "--output", "--format"}, path


def test_every_command_has_examples_and_they_are_commands_that_there_are() -> None:
    names = {path for path, _ in every_command(_command_tree())}
    for path, one in every_command(_command_tree()):
        lines = list(filter(is_example, map(str.strip, (one.epilog or "").splitlines())))
        assert one.hidden or any(f"paictl {' '.join(path)}" in line for line in lines), path
        for line in lines:
            words = tuple(line.partition("paictl ")[2].rstrip(')"').split())  # also inside eval "$(…)"
            assert any(words[: len(name)] == name for name in names), (path, line)


def test_a_bad_word_knows_what_was_meant() -> None:
    error = BadWordError("no", "yes")
    assert (error.message, error.near) == ("no", "yes")


def test_short_commands_load_no_models() -> None:
    code = "import sys; from paictl.cli.run import attempt; attempt(['version']); print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.endswith("False\n")
