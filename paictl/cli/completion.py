"""`paictl completion`: what a shell needs to complete commands, options and names."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer import completion as scripts

from paictl.cli.command import App
from paictl.cli.console import info, write
from paictl.errors import PaictlError
from paictl.i18n import text

VARIABLE = "_PAICTL_COMPLETE"
"""The environment variable by which a shell asks."""

app = App(help="Print or install the completion of a shell.", no_args_is_help=False)


class Shell(StrEnum):
    """Shells whose completion is tested."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def answer(tree: Any) -> int:
    """Say what could stand at the place where a shell asks; the exit code."""
    scripts.completion_init()  # type: ignore[attr-defined] # typer has no other door
    try:
        tree.main(args=[], prog_name="paictl", complete_var=VARIABLE, standalone_mode=False)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


@app.command(
    epilog="""
    paictl completion bash --install
    paictl completion fish > ~/.config/fish/completions/paictl.fish
    eval "$(paictl completion zsh)"
    """
)
def completion(
    shell: Annotated[Shell | None, typer.Argument(metavar="[bash|zsh|fish]", help="Default: your login shell.")] = None,
    put: Annotated[bool, typer.Option("--install", help="Install it where the shell looks for it.")] = False,
) -> None:
    """Print or install the script with which a shell completes paictl's commands, options and names."""
    name = shell.value if shell else os.path.basename(os.environ.get("SHELL", ""))  # noqa: PTH119
    if name not in set(Shell):
        raise PaictlError(text("no completion for the shell {name!r}", name=name), hint="name one of: bash, zsh, fish")
    if put:
        _, place = scripts.install(shell=name, prog_name="paictl", complete_var=VARIABLE)  # type: ignore[attr-defined]
        info(text("installed in {place}; it takes effect in a new shell", place=place))
    else:
        script = scripts.get_completion_script(  # type: ignore[attr-defined]
            prog_name="paictl", complete_var=VARIABLE, shell=name
        )
        write(script.strip())
