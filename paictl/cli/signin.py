"""`paictl user sign-in`: a token of a REST server, by a code that is typed in a browser."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Final

import typer

from paictl.cli import console
from paictl.cli.console import write
from paictl.i18n import text
from paictl.operate.users import devicecode
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
        typer.Option("--timeout", min=1, metavar="SECONDS", help="How long to wait; default: while the code is valid."),
    ] = None,
) -> None:
    """Sign in through the OpenID provider of a REST server, and print a token for its API.

    Type the code that is shown into a browser, on this machine or any other. The token is valid for a week.
    """
    found = devicecode.sign_in(server, _show, authority, math.inf if timeout is None else timeout)
    console.info(text("signed in as {user}", user=found.user))
    write(found.token)


def _show(code: DeviceCode) -> None:
    console.info(
        text("open {address} in a browser and type the code {code}", address=code.address, code=code.code)
    )  # fmt: skip
    if code.whole_address:
        console.info(text("or open {address}", address=code.whole_address))
