"""What `paictl extender serve` and `paictl placer serve` have in common: their options, declared once, and their start.

Imports that need the extra k8s are inside the functions, so that help works without it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from paictl.cli import console
from paictl.cli.options import address, namespaced
from paictl.errors import PaictlError
from paictl.frozen import frozen

if TYPE_CHECKING:
    from paictl.doors.service import DoorService, DoorSettings

    Service = TypeVar("Service", bound=DoorService)


@frozen
class ServeOptions:
    """The options of both doors; each is the parameter of that name of a command under `@serves_door`."""

    config: Annotated[Path, typer.Option(help="services-configuration.yaml or hivedscheduler.yaml.")]
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Kubeconfig of the cluster (default in a pod: its own cluster).")
    ] = None
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address to listen on.")] = "0.0.0.0:30096"
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate (PEM) to answer with HTTPS.")] = None
    tls_key: Annotated[Path | None, typer.Option(help="Its key (PEM).")] = None
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            help="Authority (PEM) of client certificates; readers without one need a token. "
            "Without this option, anyone gets an answer."
        ),
    ] = None
    leader_elect: Annotated[bool, typer.Option("--leader-elect", help="Elect one of several replicas to decide.")] = (
        False
    )
    lease: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="Lease for the election; both doors share it.")
    ] = "paictl-system/hivedscheduler-extender"
    pod: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="Pod that gets the label paictl.io/leader while it leads.")
    ] = ""
    delete_after: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0, help="Delete victims that a disruption budget protects for longer than this."
        ),
    ] = None
    longest_grace: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=1, help="Longest grace period of victims, whatever their pods ask for."),
    ] = 300.0
    heal_after: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, help="Use a bad node or device again once it has been healthy for this long."
        ),
    ] = 0.0
    bad_device_deadline: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Evict a gang if one of its devices has been bad for this long."),
    ] = None
    device: Annotated[
        list[str] | None, typer.Option("--device", metavar="RESOURCE", help="Resource that counts as devices.")
    ] = None
    require_grants: Annotated[
        bool,
        typer.Option(
            "--require-grants/--no-require-grants",
            help="Refuse pods of namespaces that were not granted their virtual cluster.",
        ),
    ] = False
    devices: Annotated[
        str, typer.Option(metavar="MODE", help="How pods get their devices: environment, claims or auto.")
    ] = "environment"
    device_class: Annotated[
        list[str] | None, typer.Option("--device-class", metavar="NAME", help="DeviceClass of claims on cells.")
    ] = None
    device_driver: Annotated[
        list[str] | None, typer.Option("--device-driver", metavar="NAME", help="Driver whose devices are leaf cells.")
    ] = None
    accounts: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE",
            help="Keep accounts of device time in this namespace; without this option, none are kept.",
        ),
    ] = ""
    sharing: Annotated[
        Path | None,
        typer.Option(help="File with the section sharing: budgets and limits for users; default: that of --config."),
    ] = None
    maintenance: Annotated[
        str, typer.Option(metavar="NAMESPACE", help="Namespace whose maintenance windows count (default: none).")
    ] = ""
    dump: Annotated[Path | None, typer.Option(help="Folder for the state if an invariant breaks.")] = None

    def settings(self, deadline: float, **own: Any) -> DoorSettings:
        """The settings of a process; `own` are those that only one door has. Raises `PaictlError` for a bad option."""
        from paictl.doors.service import DoorSettings

        host, port = address(self.listen)
        if self.device:
            own["devices"] = tuple(self.device)
        _check_certificate(self.tls_cert, self.tls_key, self.tls_client_ca)
        return DoorSettings(
            config=self.config,
            sharing=self.sharing,
            host=host,
            port=port,
            certificate=self.tls_cert,
            key=self.tls_key,
            client_authority=self.tls_client_ca,
            elect=self.leader_elect,
            lease=namespaced("--lease", self.lease),
            pod=namespaced("--pod", self.pod) if self.pod else None,
            delete_after=self.delete_after,
            longest_grace=self.longest_grace,
            heal_after=self.heal_after,
            bad_device_deadline=self.bad_device_deadline,
            deadline=deadline,
            require_grants=self.require_grants,
            accounts=self.accounts,
            maintenance=self.maintenance,
            dump=self.dump,
            **own,
        ).with_devices(self.devices, self.device_class, self.device_driver)

    def connect(self, service: type[Service], settings: DoorSettings) -> Service:
        """The process of a door, ready to run. Raises `PaictlError`, after printing findings in the configuration."""
        from paictl.doors.configuration import FindingsError
        from paictl.remote.kube.client import connect

        try:
            return service(connect(self.kubeconfig, self.context), settings, console.info)
        except FindingsError as error:
            console.info(error.report)
            raise


def serves_door(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of both doors: it takes them as `options`, before its own."""
    hints = get_type_hints(ServeOptions, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = {
        field: inspect.Parameter(field, keyword, annotation=hints[field], default=default)
        for field, default in ((field.name, _default(field.default)) for field in fields(ServeOptions))
    }
    own = [
        parameter.replace(kind=keyword)
        for parameter in inspect.signature(command, eval_str=True).parameters.values()
        if parameter.name != "options"
    ]

    @wraps(command)
    def with_options(**given: Any) -> None:
        options = ServeOptions(**{name: given.pop(name) for name in shared})
        command(options, **given)

    parameters = [*shared.values(), *own]
    signature = inspect.Signature(parameters)
    with_options.__signature__ = signature  # type: ignore[attr-defined] # what typer makes options of
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def _default(value: object) -> object:
    return inspect.Parameter.empty if value is MISSING else value


def _check_certificate(certificate: Path | None, key: Path | None, client_authority: Path | None) -> None:
    """Raise `PaictlError` unless the files that HTTPS needs are given together and exist."""
    if (certificate is None) != (key is None):
        raise PaictlError("--tls-cert and --tls-key belong together")
    if client_authority is not None and certificate is None:
        raise PaictlError("--tls-client-ca needs --tls-cert and --tls-key")
    for path in filter(None, (certificate, key, client_authority)):
        if not path.is_file():
            raise PaictlError("no such file", where=str(path))
