"""`paictl user key`: SSH keys of accounts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.clusters import OutputOption, StateOption, open_cluster
from paictl.cli.command import App
from paictl.cli.console import Output, write_data, write_table
from paictl.config.reading.source import read_bytes
from paictl.i18n import text
from paictl.operate.users import accounts as operate

EXAMPLES = """
    paictl user key add ann ~/.ssh/id_ed25519.pub
    paictl user key list ann
    paictl user key remove ann laptop
"""

app = App(help="Manage SSH keys of users: they give access to tasks of jobs with the plugin ssh.", epilog=EXAMPLES)

Name = Annotated[str, typer.Argument(metavar="USER", help="Name of a user.")]


@app.command(epilog="paictl user key add ann ~/.ssh/id_ed25519.pub --title laptop")
def add(
    name: Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A public key (….pub), or - for standard input.")],
    title: Annotated[str, typer.Option("--title", help="Title of the key (default: its comment).")] = "",
    state: StateOption = None,
) -> None:
    """Add a public key to an account; jobs submitted from now on accept it."""
    content = read_bytes(str(file)).decode("utf-8", errors="replace")
    key = operate.add_key(open_cluster(state).users, name, content, title)
    console.outcome(
        text("key {title} added to user {name}", title=key.title or key.fingerprint, name=name),
        name=name,
        fingerprint=key.fingerprint,
    )


@app.command("list", epilog="paictl user key list ann -o json")
def list_keys(name: Name, output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """List the keys of an account."""
    keys = operate.keys_of(open_cluster(state).users, name)
    if output is not Output.TABLE:
        write_data([{"title": key.title, "type": key.kind, "fingerprint": key.fingerprint} for key in keys], output)
        return
    write_table(("TITLE", "TYPE", "FINGERPRINT"), [(key.title or "-", key.kind, key.fingerprint) for key in keys])


@app.command(epilog="paictl user key remove ann laptop")
def remove(
    name: Name,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Title or fingerprint of a key.")],
    state: StateOption = None,
) -> None:
    """Remove a key; running jobs accept it until they end."""
    removed = operate.remove_key(open_cluster(state).users, name, key)
    console.outcome(
        text("key {title} of user {name} removed", title=removed.title or removed.fingerprint, name=name),
        name=name,
        fingerprint=removed.fingerprint,
    )
