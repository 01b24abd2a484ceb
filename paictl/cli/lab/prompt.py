"""The lab in the prompt of a shell: bash, zsh and fish read their own start files first, then ours."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from paictl.lab.errors import writing

_BASH = """\
[ -r /etc/bash.bashrc ] && . /etc/bash.bashrc
[ -r ~/.bashrc ] && . ~/.bashrc
PS1="({mark}) $PS1"
"""
_ZSH = """\
ZDOTDIR={home}
[ -r "$ZDOTDIR/.zshrc" ] && . "$ZDOTDIR/.zshrc"
PROMPT="({mark}) $PROMPT"
"""
_FISH = """\
functions -q fish_prompt; and functions -c fish_prompt _paictl_prompt
function fish_prompt; printf '({mark}) '; functions -q _paictl_prompt; and _paictl_prompt; end
"""


def with_prompt(program: str, labs: Path, name: str) -> tuple[list[str], dict[str, str]]:
    """(command line, further environment) that opens a shell whose prompt begins with the lab's `name`.

    Start files are written to ``shell/`` beside the labs. A shell that is none of the three gets PS1 from the
    environment, which those that read no file of their own keep.
    """

    mark, folder = f"lab {name}", labs.resolve() / "shell"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        match Path(program).name:
            case "bash":
                (folder / "bashrc").write_text(_BASH.format(mark=mark), encoding="utf-8")
                return [program, "--rcfile", str(folder / "bashrc"), "-i"], {}
            case "zsh":
                home = shlex.quote(os.environ.get("ZDOTDIR") or str(Path.home()))
                (folder / ".zshrc").write_text(_ZSH.format(mark=mark, home=home), encoding="utf-8")
                return [program, "-i"], {"ZDOTDIR": str(folder)}
            case "fish":
                return [program, "-i", "-C", _FISH.format(mark=mark)], {}
    return [program], {"PS1": f"({mark}) $ "}
