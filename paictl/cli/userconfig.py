"""Defaults of options from configuration files: flag > environment > project > user.

The user's file is `$XDG_CONFIG_HOME/paictl/config.toml` (`~/.config/…`), the project's `.paictl.toml` in the present
folder or the nearest one above it that has one:

    output = "json"          # of every command that knows this form
    lang = "zh"              # errors, hints and labs
    state = "/srv/paictl"    # folder of the embedded cluster
    color = false

    [job.submit]             # any option of a command, by its long name
    vc = "vision"
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from paictl.cli.values import choices_of
from paictl.errors import PaictlError
from paictl.i18n import did_you_mean, text
from paictl.places import config_folder

EVERYWHERE: Mapping[str, type] = {"output": str, "lang": str, "state": str, "color": bool}
"""Keys for all commands that have such an option, and what their values are."""

PROJECT = ".paictl.toml"
ENVIRONMENT = {"output": "PAICTL_OUTPUT", "lang": "PAICTL_LANG"}
"""Keys that the environment can set too; PAICTL_STATE and NO_COLOR are read where they are needed."""


def user_file() -> Path:
    """Where the user's own defaults are."""
    return config_folder() / "config.toml"


def project_file() -> Path | None:
    """The file of the project in which the user stands, if there is one."""
    try:
        here = Path.cwd()
    except OSError:  # the folder was taken away
        return None
    return next((folder / PROJECT for folder in (here, *here.parents) if (folder / PROJECT).is_file()), None)


def setting(key: str, contents: Sequence[Mapping[str, Any]] | None = None) -> Any:
    """A key for all commands: from the environment, the project's file, or the user's; None if it is not set.

    `contents` are those of the files, if somebody has read them already.
    """
    if key in ENVIRONMENT and (value := os.environ.get(ENVIRONMENT[key])):
        return value
    if key == "state" and os.environ.get("PAICTL_STATE"):
        return None  # which is looked at where the folder is needed, and comes before files
    contents = _contents() if contents is None else contents
    return next((content[key] for content in contents if key in content), None)


def defaults_for(path: Sequence[str], params: Sequence[Any]) -> dict[str, Any]:
    """What the user has set for the options of a command, by the names of its parameters."""
    defaults: dict[str, Any] = {}
    contents = _contents()
    for param in params:
        names = [name.removeprefix("--") for name in param.opts if name.startswith("--")]
        for name in names if param.param_type_name == "option" else ():
            value = _of_command(contents, path, name)
            if value is None and name in EVERYWHERE:
                value = setting(name, contents)
                if name == "output" and value not in choices_of(param):
                    value = None  # a file or folder, or a form that this command does not know
            if value is not None:
                defaults[param.name] = [str(item) for item in value] if isinstance(value, list) else _plain(value)
    return defaults


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool) else str(value)


def _of_command(contents: Sequence[Mapping[str, Any]], path: Sequence[str], name: str) -> Any:
    for content in contents:
        table: Any = content
        for word in path:
            table = table.get(word) if isinstance(table, dict) else None
        if isinstance(table, dict) and name in table:
            return table[name]
    return None


def _contents() -> list[dict[str, Any]]:
    """The files that there are, the one that wins first."""
    files = [file for file in (project_file(), user_file()) if file is not None]
    return [_content(file, _stamp(file)) for file in files if _stamp(file) is not None]


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


@cache
def _content(file: Path, _stamp: tuple[int, int]) -> dict[str, Any]:
    import tomllib  # few have such a file

    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise PaictlError(text("cannot read: {strerror}", strerror=error.strerror), where=str(file)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PaictlError(
            text("not TOML: {error}", error=error), where=str(file), hint="correct it, or move it away"
        ) from None
    for key, value in content.items():
        if isinstance(value, dict):
            continue
        if key not in EVERYWHERE:
            hint = did_you_mean(key, EVERYWHERE) or text("keys for all commands: {keys}", keys=", ".join(EVERYWHERE))
            raise PaictlError(text("unknown key {key!r}", key=key), where=str(file), hint=hint)
        if not isinstance(value, EVERYWHERE[key]):
            wanted = "true or false" if EVERYWHERE[key] is bool else "a text"
            raise PaictlError(text("{key} is not {wanted}", key=key, wanted=wanted), where=str(file))
    return content
