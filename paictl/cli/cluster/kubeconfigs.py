"""`paictl cluster kubeconfig`: a kubeconfig of their own for each person, with a role."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from paictl.cli import console
from paictl.cli.clusters import OutputOption, StateOption, clock_text, open_cluster, plain
from paictl.cli.command import App
from paictl.cli.confirmation import Yes, confirm
from paictl.cli.console import Output, write_data, write_table
from paictl.cli.settings import settings
from paictl.cluster.access import AccessRequest, AccessRole, GivenAccess, OtherRight
from paictl.cluster.capabilities import AccessStore
from paictl.cluster.interface import Cluster
from paictl.cluster.targets import chosen_name, find_target
from paictl.errors import PaictlError
from paictl.files import write_together
from paictl.i18n import text
from paictl.operate import access as operate
from paictl.units import parse_duration

STDOUT: Final = "-"
EXAMPLES = """
    paictl cluster kubeconfig add ann --role tenant --namespace vision
    paictl cluster kubeconfig list
    paictl cluster kubeconfig remove ann
"""

app = App(help="Give people a kubeconfig of their own, with a role, and take the role away again.", epilog=EXAMPLES)


def _cluster(state: Path | None) -> tuple[Cluster, AccessStore]:
    """The cluster that the command is about, and the access of people to it."""
    name = chosen_name(settings.cluster, state_given=settings.state_given)
    if find_target(name).pinned is None:  # no need to bring one up that could not do it either
        raise operate.no_api_server()
    cluster = open_cluster(state)
    return cluster, operate.access_of(cluster)


User = Annotated[str, typer.Argument(metavar="USER", help="Name of a person.")]


@app.command(
    epilog="""
    paictl cluster kubeconfig add ann --namespace vision
    paictl cluster kubeconfig add bob --role tenant --namespace vision --valid 7d --file bob.conf
    paictl cluster kubeconfig add eve --role operator --file - | ssh eve@desk 'umask 77; cat > ~/.kube/prod'

Roles: view reads one namespace, without Secrets. tenant works in one namespace that admission policies guard.
operator sees all tenants' pods and jobs, stops jobs and cordons nodes. admin does everything.
A certificate cannot be revoked: keep --valid short.
"""
)
def add(
    user: User,
    role: Annotated[AccessRole, typer.Option("--role", help="What the person may do (see below).")] = AccessRole.VIEW,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", metavar="NAME", help="Namespace of the roles view and tenant, and the kubeconfig's default."
        ),
    ] = "",
    group: Annotated[
        list[str] | None, typer.Option("--group", metavar="NAME", help="A group in the certificate; repeatable.")
    ] = None,
    valid: Annotated[
        str, typer.Option("--valid", metavar="TIME", help="How long the certificate is valid, e.g. 8h.")
    ] = "30d",
    file: Annotated[
        str, typer.Option("--file", metavar="FILE", help="New file, mode 0600 (default: USER.kubeconfig); - is stdout.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, metavar="SECONDS", help="How long to wait for the certificate.")
    ] = 30,
    state: StateOption = None,
) -> None:
    """Create a kubeconfig for a person: a new key, a certificate signed by the cluster, and a role.

    The key is generated on this machine and is only in that file. Run the command again to renew the certificate.
    """
    request = AccessRequest(user, role, namespace, tuple(dict.fromkeys(group or ())), _span(valid))
    request.check()
    target = file or f"{user}.kubeconfig"
    _check_target(target, force=force)
    cluster, store = _cluster(state)
    for remark in operate.remarks(cluster, request):
        console.warning(remark)

    def deliver(kubeconfig: str) -> None:
        if target == STDOUT:
            console.write_file(kubeconfig.rstrip())
        else:
            path = Path(target)
            write_together(path.parent, {path.name: kubeconfig}, force=force, mode=0o600)

    made, others = operate.give(store, request, deliver, timeout)
    for right in others:
        console.info(_also(right))
    console.outcome(
        text(
            "{user} has the role {role} in {where}; the certificate in {file} ends at {time}",
            user=user,
            role=role.value,
            where=made.namespace or text("the whole cluster"),
            file=text("standard output") if target == STDOUT else target,
            time=clock_text(made.until),
        ),
        name=user,
        **{key: value for key, value in _data(made).items() if key != "user"},
        file=None if target == STDOUT else target,
    )


def _span(duration: str) -> timedelta:
    seconds = parse_duration(duration)
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        return timedelta.max


def _check_target(target: str, *, force: bool) -> None:
    """Raise `PaictlError` for a place where no key may go, before anything is asked of the cluster."""
    if target == STDOUT:
        if sys.stdout.isatty():
            raise PaictlError(
                text("a kubeconfig contains a private key, and this is a terminal"),
                hint=text("name a file with --file, or pipe the output into another program"),
            )
    elif not force and (Path(target).exists() or Path(target).is_symlink()):
        raise PaictlError(text("already exists"), where=target, hint=text("replace it with --force"))


def _also(other_right: OtherRight) -> str:
    return text(
        "{subject} also has the rights of {role}, by {binding}",
        subject=other_right.subject,
        role=other_right.role,
        binding=other_right.binding,
    )


def _data(access: GivenAccess) -> dict[str, Any]:
    return {**plain(access), "namespace": access.namespace or None}


@app.command("list", epilog="paictl cluster kubeconfig list -o json")
def list_access(output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """List the people with a role, and when their newest certificates end."""
    cluster, store = _cluster(state)
    accesses = store.accesses()
    for modified in store.modified_bindings():
        console.warning(text("{object} was modified outside paictl", object=modified))
    if output is not Output.TABLE:
        write_data([_data(access) for access in accesses], output)
        return
    now = cluster.now if accesses else None
    rows = []
    for access in accesses:
        ended = text("expired") if now and access.until and access.until <= now else ""
        until = f"{clock_text(access.until)} {console.localized(ended)}".rstrip()
        rows.append((access.user, access.role.value, access.namespace or "*", ", ".join(access.groups) or "-", until))
    write_table(("USER", "ROLE", "NAMESPACE", "GROUPS", "UNTIL"), rows)


@app.command(
    epilog="""
    paictl cluster kubeconfig remove ann
    paictl cluster kubeconfig remove ann --role tenant --namespace vision
"""
)
def remove(
    user: User,
    role: Annotated[AccessRole | None, typer.Option("--role", help="Only this role (default: all).")] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", metavar="NAME", help="Only in this namespace (default: everywhere).")
    ] = "",
    yes: Yes = False,
    state: StateOption = None,
) -> None:
    """Take roles from a person. The certificate stays valid until its end, but no longer grants any access."""
    _, store = _cluster(state)
    confirm(text("{user} will lose access to the cluster", user=user), user, yes=yes)
    for access in store.remove_access(user, role, namespace):
        console.outcome(
            text(
                "{user} no longer has the role {role} in {where}",
                user=user,
                role=access.role.value,
                where=access.namespace or text("the whole cluster"),
            ),
            name=user,
            **{key: value for key, value in _data(access).items() if key != "user"},
        )
    for other in store.other_rights(user):
        console.warning(_also(other))
