"""`paictl storage`: named storages for jobs, and which virtual clusters may use them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paictl.cli import console, names
from paictl.cli.clusters import OutputOption, StateOption, open_cluster, plain
from paictl.cli.command import App
from paictl.cli.confirmation import Yes, confirm
from paictl.cli.console import Output, localized, write, write_data, write_table
from paictl.cli.settings import settings
from paictl.cluster.capabilities import HandClock
from paictl.cluster.storages import KINDS, PVC, SMB, Credentials, Storage, storage_named
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.operate import storages as operate

EXAMPLES = """
    paictl storage add datasets --nfs 10.0.0.9:/datasets --vc vision --read-only
    paictl storage list
    paictl storage grant datasets --vc speech
"""

app = App(help="Manage storages that jobs mount, and which virtual clusters may use them.", epilog=EXAMPLES)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a storage.")]
Vcs = Annotated[
    list[str] | None,
    typer.Option("--vc", metavar="VC", autocompletion=names.vcs, help="Virtual cluster that may use it; '*' for all."),
]


@app.command(
    epilog="""
    paictl storage add datasets --nfs 10.0.0.9:/datasets --vc vision --option nfsvers=4.1
    pass show smb | paictl storage add home --smb //files/home --username pai --password-stdin --vc '*' --own-folders
    paictl storage add scratch --pvc scratch --vc vision --default
"""
)
def add(
    name: Name,
    nfs: Annotated[str | None, typer.Option("--nfs", metavar="SERVER:/PATH", help="An NFS export.")] = None,
    smb: Annotated[str | None, typer.Option("--smb", metavar="//SERVER/SHARE", help="An SMB share.")] = None,
    pvc: Annotated[
        str | None, typer.Option("--pvc", metavar="CLAIM", help="A PersistentVolumeClaim in the namespace of jobs.")
    ] = None,
    vc: Vcs = None,
    path: Annotated[
        str, typer.Option("--path", metavar="PATH", help="Mount path in containers (default: /mnt/NAME).")
    ] = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="Mount it read-only.")] = False,
    own_folders: Annotated[
        bool, typer.Option("--own-folders", help="Give each user only the folder with that user's name.")
    ] = False,
    default: Annotated[
        bool, typer.Option("--default", help="Mount it in jobs that ask for the default storages.")
    ] = False,
    options: Annotated[
        list[str] | None, typer.Option("--option", metavar="OPTION", help="Mount option, e.g. nfsvers=4.1; repeatable.")
    ] = None,
    username: Annotated[str | None, typer.Option("--username", help="User name for the SMB server.")] = None,
    domain: Annotated[str, typer.Option("--domain", help="Domain of that user.")] = "",
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the SMB password from standard input.")
    ] = False,
    state: StateOption = None,
) -> None:
    """Add a storage. A terminal asks for the SMB password; scripts pass it on standard input."""
    given = [(kind, value) for kind, value in zip(KINDS, (nfs, smb, pvc), strict=True) if value is not None]
    if len(given) != 1:
        raise PaictlError(text("say where the storage is"), hint=text("give one of --nfs, --smb and --pvc"))
    if not vc:
        raise PaictlError(text("say who may use it"), hint=text("--vc VC, or --vc '*' for all virtual clusters"))
    kind, address = given[0]
    if kind == PVC and options:
        raise PaictlError(text("--option works with --nfs and --smb only"), hint=text("set it in the claim's volume"))
    storage = Storage(
        name, kind, address, tuple(dict.fromkeys(vc)), path, read_only, own_folders, default, tuple(options or ())
    )
    cluster = open_cluster(state)
    credentials = None
    if kind == SMB and username is not None:
        credentials = Credentials(username, _password(username, password_stdin), domain)
    elif username is not None or password_stdin or domain:
        raise PaictlError(text("--username, --domain and --password-stdin work together, and with --smb only"))
    operate.add(cluster, storage, credentials)
    if isinstance(cluster, HandClock):
        console.info(text("jobs are simulated here: nothing is mounted, and passwords are not kept"))
    console.outcome(text("storage {name} added", name=name), name=name, kind=kind, vcs=list(storage.vcs))


def _password(user: str, stdin: bool) -> str:
    if stdin:
        password = sys.stdin.readline().rstrip("\r\n")
        if not password:
            raise PaictlError(text("the password on standard input is empty"))
        return password
    if not settings.may_ask:
        raise PaictlError("needs a password", hint=text("run it in a terminal, or give --password-stdin"))
    return str(typer.prompt(console.localized(text("password of {name}", name=user)), hide_input=True, err=True))


@app.command("list", epilog="paictl storage list --vc vision -o json")
def list_storages(
    vc: Annotated[
        str | None, typer.Option("--vc", autocompletion=names.vcs, help="Only what a virtual cluster may use.")
    ] = None,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """List the storages, and which virtual clusters may use them."""
    storages = [storage for storage in open_cluster(state).storages() if vc is None or storage.is_for(vc)]
    if output is not Output.TABLE:
        write_data([_data(storage) for storage in storages], output)
        return
    rows = [
        (storage.name, storage.kind, storage.address, storage.mount_path, _words(storage), _vcs(storage))
        for storage in storages
    ]
    write_table(("STORAGE", "KIND", "ADDRESS", "PATH", "MODE", "VCS"), rows)


def _vcs(storage: Storage) -> str:
    return "all" if "*" in storage.vcs else ", ".join(storage.vcs) or "-"


def _words(storage: Storage) -> str:
    marks = {"read-only": storage.read_only, "own folders": storage.own_folders, "default": storage.default}
    return ", ".join(word for word, holds in marks.items() if holds) or "-"


def _data(storage: Storage) -> dict[str, object]:
    return {**plain(storage), "path": storage.mount_path}


@app.command(epilog="paictl storage show datasets")
def show(name: Name, output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """Show a storage, and the unfinished jobs that use it."""
    cluster = open_cluster(state)
    storage = storage_named(cluster.storages(), name)
    jobs = list(operate.jobs_with(cluster, name))
    if output is not Output.TABLE:
        write_data({**_data(storage), "jobs": jobs}, output)
        return
    write(
        localized(
            "storage {name}: {kind} {address}, mounted at {path}",
            name=name,
            kind=storage.kind,
            address=storage.address,
            path=storage.mount_path,
        )
    )
    write(localized("virtual clusters: {vcs}", vcs=_vcs(storage)))
    if storage.options:
        write(localized("mount options: {options}", options=", ".join(storage.options)))
    if _words(storage) != "-":
        write(localized("mode: {words}", words=_words(storage)))
    write(localized("jobs: {jobs}", jobs=", ".join(jobs) or "-"))


@app.command(epilog="paictl storage grant datasets --vc speech --revoke vision")
def grant(
    name: Name,
    vc: Vcs = None,
    revoke: Annotated[
        list[str] | None, typer.Option("--revoke", metavar="VC", help="Virtual cluster that may no longer use it.")
    ] = None,
    state: StateOption = None,
) -> None:
    """Change which virtual clusters may use a storage. Running jobs keep it."""
    if not vc and not revoke:
        raise PaictlError("there is nothing to change", hint=text("give --vc VC or --revoke VC"))
    storage = operate.grant(open_cluster(state), name, vc or (), revoke or ())
    console.outcome(text("storage {name}: {vcs}", name=name, vcs=_vcs(storage)), name=name, vcs=list(storage.vcs))


@app.command(epilog="paictl storage remove datasets --yes")
def remove(name: Name, yes: Yes = False, state: StateOption = None) -> None:
    """Remove a storage from the list; its data stays where it is."""
    cluster = open_cluster(state)
    storage_named(cluster.storages(), name)
    confirm(text("storage {name} will be removed; its data stays", name=name), name, yes=yes)
    operate.remove(cluster, name)
    console.outcome(text("storage {name} removed", name=name), name=name, removed=True)
