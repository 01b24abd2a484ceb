"""`paictl user`: who may use a cluster over HTTP, what they may do there, and signing in."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from paictl.cli import console
from paictl.cli.clusters import OutputOption, StateOption, clock_text, open_cluster
from paictl.cli.command import App, Lazy
from paictl.cli.confirmation import Yes, confirm
from paictl.cli.console import Output, write, write_data, write_table
from paictl.cli.settings import settings
from paictl.cluster.accounts import Account
from paictl.errors import PaictlError
from paictl.files import write_together
from paictl.i18n import text
from paictl.operate.users import accounts as operate
from paictl.operate.users import devicecode
from paictl.operate.users.passwords import generated
from paictl.remote.oidc.provider import DeviceCode

EXAMPLE: Final = """
    paictl user sign-in https://pai.lab.example:30186
    TOKEN=$(paictl user sign-in https://pai.lab.example:30186)
"""


def sign_in(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="Address of a paictl REST server.")],
    authority: Annotated[
        Path | None, typer.Option("--authority", metavar="FILE", help="Certificates (PEM) to trust for the server.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", min=1, metavar="SECONDS", help="How long to wait; default: as long as the code is valid."
        ),
    ] = None,
) -> None:
    """Sign in through the OpenID provider of a REST server, and print a token for its API.

    Enter the displayed code in a browser, on this machine or any other. The token is valid for a week.
    """
    login = devicecode.sign_in(server, _show, authority, math.inf if timeout is None else timeout)
    console.info(text("signed in as {user}", user=login.user))
    write(login.token)


def _show(code: DeviceCode) -> None:
    console.info(text("open {address} in a browser and type the code {code}", address=code.address, code=code.code))
    if code.whole_address:
        console.info(text("or open {address}", address=code.whole_address))


EXAMPLES = """
    paictl user list
    paictl user add ann
    paictl user grant ann --vc vc1
"""

app = App(
    help="Manage users of the REST server and the portal, and their rights.",
    epilog=EXAMPLES,
    lazy={"key": Lazy("paictl.cli.userkeys", "SSH keys of users.")},
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a user.")]
Vcs = Annotated[list[str] | None, typer.Option("--vc", metavar="VC", help="Virtual cluster to grant.")]
Generated = Annotated[
    Path | None,
    typer.Option("--generate-password", metavar="FILE", help="Generate a password and write it to a new file (0600)."),
]
Stdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]


@app.command("list", epilog="paictl user list -o json")
def list_users(output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """List users: who is an administrator, and which virtual clusters each may use."""
    accounts = open_cluster(state).users.accounts()
    if output is not Output.TABLE:
        write_data([_data(account) for account in accounts], output)
        return
    rows = [
        (
            account.name,
            "admin" if account.admin else "user",
            _vcs(account),
            account.email or "-",
            clock_text(account.created),
        )
        for account in accounts
    ]
    write_table(("NAME", "ROLE", "VCS", "EMAIL", "SINCE"), rows)


def _vcs(account: Account) -> str:
    return ", ".join(account.vcs) or ("all" if account.admin else "-")


def _data(account: Account) -> dict[str, object]:
    created = account.created.isoformat() if account.created else None
    return {
        "name": account.name,
        "admin": account.admin,
        "vcs": list(account.vcs),
        "email": account.email,
        "created": created,
    }


@app.command(
    epilog="""
    paictl user add ann --vc vc1 --vc vc2
    paictl user add bob --vc vc1 --generate-password bob.password
    pass show cluster/ann | paictl user add ann --admin --password-stdin
    """
)
def add(
    name: Name,
    *,
    admin: Annotated[bool, typer.Option("--admin", help="Make the user an administrator.")] = False,
    vc: Vcs = None,
    email: Annotated[str, typer.Option("--email", help="Address.")] = "",
    with_jobs: Annotated[
        bool, typer.Option("--with-jobs", help="Transfer the jobs of an earlier user of this name.")
    ] = False,
    password_stdin: Stdin = False,
    generate_password: Generated = None,
    state: StateOption = None,
) -> None:
    """Add a user. A terminal asks for the password; scripts pass it on standard input with --password-stdin."""
    cluster = open_cluster(state)
    operate.check_vcs(cluster, vc or ())
    if not with_jobs and cluster.users.account(name) is None:
        operate.check_free(cluster, name)
    if generate_password is None:
        account = operate.add(
            cluster.users, operate.NewUser(name, _password(name, password_stdin), admin, vc or (), email)
        )
    else:
        if password_stdin:
            raise PaictlError("--generate-password and --password-stdin exclude each other")
        if generate_password.exists():
            raise PaictlError("already exists", where=str(generate_password), hint="name another file")
        password = generated()
        written = write_together(
            generate_password.parent, {generate_password.name: f"{password}\n"}, mode=0o600
        )  # before the account: a lost password would lock the user out
        try:
            account = operate.add(cluster.users, operate.NewUser(name, password, admin, vc or (), email))
        except BaseException:
            written[0].unlink(missing_ok=True)
            raise
        console.info(text("the password of user {name} is in {file}", name=name, file=generate_password))
    console.outcome(text("user {name} added", name=account.name), name=account.name, admin=account.admin)


@app.command(epilog="paictl user passwd ann")
def passwd(name: Name, *, password_stdin: Stdin = False, state: StateOption = None) -> None:
    """Change a user's password; the user has to sign in again everywhere."""
    users = open_cluster(state).users
    operate.find(users, name)  # before anybody types a password
    operate.set_password(users, name, _password(name, password_stdin))
    console.outcome(text("password of user {name} changed", name=name), name=name)


@app.command(epilog="paictl user grant ann --vc vc2 --revoke vc1")
def grant(
    name: Name,
    *,
    vc: Vcs = None,
    revoke: Annotated[
        list[str] | None, typer.Option("--revoke", metavar="VC", help="Virtual cluster to revoke.")
    ] = None,
    admin: Annotated[
        bool | None,
        typer.Option("--admin/--no-admin", help="Make the user an administrator, or an ordinary user again."),
    ] = None,
    state: StateOption = None,
) -> None:
    """Grant virtual clusters to a user or revoke them; make administrators."""
    if not vc and not revoke and admin is None:
        raise PaictlError("there is nothing to change", hint="give --vc VC, --revoke VC, --admin or --no-admin")
    cluster = open_cluster(state)
    operate.find(cluster.users, name)
    operate.check_vcs(cluster, vc or ())
    account = operate.grant(cluster.users, name, vc or (), revoke or (), admin=admin)
    what = "administrator" if account.admin else ", ".join(account.vcs) or "no virtual cluster"
    console.outcome(
        text("user {name}: {what}", name=name, what=what), name=name, vcs=list(account.vcs), admin=account.admin
    )


@app.command(epilog="paictl user remove ann")
def remove(name: Name, *, yes: Yes = False, state: StateOption = None) -> None:
    """Remove a user; the jobs stay, and only administrators can change them."""
    users = open_cluster(state).users
    operate.find(users, name)
    confirm(text("user {name} will be removed", name=name), name, yes=yes)
    operate.remove(users, name)
    console.outcome(text("user {name} removed", name=name), name=name)


app.command("sign-in", epilog=EXAMPLE)(sign_in)


def _password(name: str, stdin: bool) -> str:
    """The typed password, or the first line of standard input; never an argument, which other users could see."""
    if stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not settings.may_ask:
        raise PaictlError(
            "needs a password", hint="run it in a terminal, or give --password-stdin or --generate-password FILE"
        )
    asked = console.localized(text("password of {name}", name=name))
    return str(typer.prompt(asked, hide_input=True, confirmation_prompt=True, err=True))
