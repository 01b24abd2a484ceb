"""`paictl lab shell` and `env`: a shell in which every paictl command is about the lab, and its prompt."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.console import write_file
from paictl.cli.lab import starting
from paictl.cli.lab.language import LangOption, speaks
from paictl.cli.lab.sessions import LabWord, begun, in_lab, in_lab_shell, session_of
from paictl.cluster.targets import VARIABLE
from paictl.lab.folders import SHELL, lab_of_shell, labs_folder
from paictl.lab.language import choose_for
from paictl.lab.messages import LabError, say, writing
from paictl.lab.session import Session

app = App()

_BACK: Final = "PAICTL_LAB_BACK"
"""Environment variable with the folder to which `lab env --leave` goes back."""
_CLUSTER_BACK: Final = "PAICTL_LAB_CLUSTER_BACK"
"""Environment variable with the cluster that `lab env --leave` names again; not set where none was named."""


@app.command(
    epilog="""
    eval "$(paictl lab env)"
    eval "$(paictl lab env --leave)"
"""
)
def env(
    lab: LabWord = None,
    leave: Annotated[bool, typer.Option("--leave", help="Print the commands that leave the lab again.")] = False,
) -> None:
    """Print the environment of a lab: eval "$(paictl lab env)"; to leave: eval "$(paictl lab env --leave)"."""
    if leave:
        _leave()
        return
    session = begun(lab)
    files = session.workspace.require_files().resolve()
    if _BACK not in os.environ:
        write_file(f"export {_BACK}={shlex.quote(str(Path.cwd()))}{_kept_cluster()}")
    write_file(f"export PAICTL_STATE={shlex.quote(str(session.workspace.folder.resolve()))}")
    write_file(f"cd {shlex.quote(str(files))}")
    write_file(
        f"export {VARIABLE}={shlex.quote(session.workspace.cluster_name)}"
    )  # a lab's commands must never be about the cluster that this shell named
    path = path_with_paictl(session.root)
    if path is not None:
        write_file(f"export PATH={shlex.quote(path)}")
    console.info(_env_note(session))


def _kept_cluster() -> str:
    """What keeps the cluster that this shell names, as a further word of ``export``."""
    return f" {_CLUSTER_BACK}={shlex.quote(os.environ[VARIABLE])}" if os.environ.get(VARIABLE) else ""


def _env_note(session: Session) -> str:

    return say("in-env", speaks(None, session), lab=session.lab.number)


def _leave() -> None:
    """Undo what `env` did to this shell."""

    if in_lab_shell():
        raise LabError("leave-by-exit")
    if _BACK not in os.environ:
        raise LabError("not-in-env")
    write_file(f"cd {shlex.quote(os.environ[_BACK])}")
    write_file(f"unset PAICTL_STATE {VARIABLE} {_BACK} {_CLUSTER_BACK}")
    if named := os.environ.get(_CLUSTER_BACK):
        write_file(f"export {VARIABLE}={shlex.quote(named)}")


@app.command("shell", epilog="paictl lab shell 03")
def open_shell(lab: LabWord = None, lang: LangOption = None) -> None:
    """Open a shell in which paictl uses the lab's cluster; leave it with exit. Starts the lab if necessary."""

    session = session_of(lab)
    if lang is not None:
        choose_for(labs_folder(), session.lab.id, lang.value)  # also for what is typed in the shell
    words = speaks(lang, session)
    here, there = in_lab_shell() and in_lab(session), session.workspace.folder.resolve()
    if in_lab_shell() and not here:  # one in another would take two exits to leave
        raise LabError("in-other-shell", lab=session.lab.number, other=lab_of_shell()[:2])
    if not session.workspace.started:
        if session.progress.started:
            session.require_started()  # its folder was taken away
        starting.begin(session, words, opening=True)
    saying = "in-shell-already" if here else "in-shell"
    folder = session.workspace.require_files()
    console.info(say(saying, words, lab=session.lab.number, folder=folder))
    if here:
        return
    environment = {**os.environ, "PAICTL_STATE": str(there), SHELL: session.lab.id}
    environment[VARIABLE] = session.workspace.cluster_name
    environment["PATH"] = path_with_paictl(session.root) or os.environ.get("PATH", "")
    raise typer.Exit(_run(session, folder, environment))


def _run(session: Session, folder: Path, environment: dict[str, str]) -> int:
    """Run the student's shell with the lab in its prompt; its exit code."""
    program = os.environ.get("SHELL") or "/bin/sh"
    site = session.workspace.site
    name = session.lab.number if site is None else f"{session.lab.number} at {site.cluster}"
    words, more = with_prompt(program, session.root, name)
    return subprocess.run(words, cwd=folder, env={**environment, **more}, check=False).returncode  # noqa: S603 - theirs


def path_with_paictl(labs: Path) -> str | None:
    """PATH with a folder in front where `paictl` is this paictl; None if PATH has one already.

    The folder stands beside the labs and holds nothing else, so that no other program of a virtual environment gets in
    front of the student's.
    """

    if shutil.which("paictl") is not None:
        return None
    folder = labs.resolve() / "bin"
    script = folder / "paictl"
    source = shlex.quote(str(Path(__file__).resolve().parents[3]))
    with writing(script):
        folder.mkdir(parents=True, exist_ok=True)
        draft = script.with_name(f"paictl.{os.getpid()}")
        draft.write_text(
            f"#!/bin/sh\nPYTHONPATH={source}${{PYTHONPATH:+:$PYTHONPATH}} "
            f'exec {shlex.quote(sys.executable)} -P -m paictl "$@"\n',
            encoding="utf-8",
        )
        draft.chmod(0o755)
        draft.replace(script)
    return os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])


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
