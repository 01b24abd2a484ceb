"""`paictl serve`: the REST API and the portal of a cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paictl.cli import console
from paictl.cli.clusters import StateOption
from paictl.cli.command import App
from paictl.cli.lab.witness import extension_here
from paictl.cli.options import address
from paictl.cli.settings import settings
from paictl.cluster.jobpages import FollowsJobs
from paictl.cluster.targets import chosen_name, find_target, open_in_cluster, open_target, stamp_of
from paictl.config.secrets.sealing import is_seal
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.operate.users.accounts import ADMIN_PASSWORD, SECTION, bootstrap, named_administrator
from paictl.server import serving

if TYPE_CHECKING:
    from paictl.cluster.interface import Cluster

app = App(help="Serve the REST API and the portal of a cluster.")


@app.callback()
def group() -> None:
    """Keep the command a command of its own, under the name serve."""


@app.command(
    epilog="""
    paictl serve
    paictl serve --cluster prod --listen 0.0.0.0:9186 --tls-cert server.crt --tls-key server.key
    paictl serve --cluster prod --tasks 'http://*.localhost:9187'
    """
)
def serve(
    *,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address to listen on.")] = "127.0.0.1:9186",
    in_cluster: Annotated[
        bool, typer.Option("--in-cluster", help="Use the cluster that this pod runs in, with its service account.")
    ] = False,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate (PEM) to answer with HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key (PEM).")] = None,
    behind_proxy: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="A trusted proxy, whose X-Forwarded-… headers are used; also a network."),
    ] = None,
    oidc_client_secret: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File with this server's client secret at the OpenID provider; without it, PKCE alone."
        ),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option(
            "--tasks",
            metavar="URL",
            help="Show what tasks serve (TensorBoard, notebooks) at host names of their own: https://*.tasks.example.org",
        ),
    ] = None,
    tasks_listen: Annotated[
        str, typer.Option("--tasks-listen", metavar="HOST:PORT", help="With --tasks: address to listen on.")
    ] = "127.0.0.1:9187",
    state: StateOption = None,
) -> None:
    """Serve OpenPAI's REST API v2 and the portal, until Ctrl-C.

    Without HTTPS, only this machine can connect, unless you name a proxy that has it.
    """
    host, port = address(listen, least=0)
    secret = _secret_in(oidc_client_secret) if oidc_client_secret else ""
    chosen = serving.ServerSettings(
        host,
        port,
        tls_cert,
        tls_key,
        serving.networks_of(behind_proxy or ()),
        secret,
        serving.tasks_at(tasks),
        *address(tasks_listen, least=0),
    )
    serving.check(chosen)
    name = "" if in_cluster else chosen_name(settings.cluster, state_given=settings.state_given)

    def connect() -> Cluster:
        return open_in_cluster() if in_cluster else open_target(name, folder=state)

    cluster = connect()
    bootstrap(cluster)
    serving.log_to_stderr(logging.WARNING if settings.verbosity < 0 else logging.INFO)
    target = None if in_cluster else find_target(name, state)
    serving.serve(
        chosen,
        _for_threads(cluster, connect),
        lambda: None if target is None else stamp_of(target),
        lambda where: _say(cluster, where),
        None if in_cluster else extension_here(),
    )


def _say(cluster: Cluster, where: str) -> None:
    """Print where to sign in, as which user, and where the password is."""
    console.info(text("cluster {name} is served at {where}", name=cluster.name, where=where))
    administrators = [account for account in cluster.users.accounts() if account.admin]
    if not administrators:
        console.info(text("no user can sign in yet: paictl user add NAME --admin"))
        return
    name = named_administrator(cluster)
    configured = next(
        (
            administrator
            for administrator in administrators
            if administrator.name == name and is_seal(administrator.password)
        ),
        None,
    )
    if configured is None:
        names = ", ".join(administrator.name for administrator in administrators)
        console.info(text("sign in as an administrator: {names} (new password: paictl user passwd NAME)", names=names))
        return
    place = "sign in as {name} with the password from services-configuration.yaml ({section}: {key})"
    console.info(text(place, name=name, section=SECTION, key=ADMIN_PASSWORD))
    console.info(text("to choose another one: paictl user passwd {name}", name=name))


def _for_threads(cluster: Cluster, connect: Callable[[], Cluster]) -> Callable[[], Cluster]:
    """Gives each thread its cluster: one of its own, or a shared one if its jobs are watched, as on Kubernetes."""
    if not isinstance(cluster, FollowsJobs):
        return connect
    cluster.follow_jobs()
    return lambda: cluster


def _secret_in(path: Path) -> str:
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise PaictlError(text("cannot be read: {reason}", reason=reason), where=str(path)) from None
    if not secret:
        raise PaictlError("the file is empty", where=str(path))
    return secret
