"""The three files of a real cluster, as options of `paictl node add` and `remove`: all of them, or none."""

from __future__ import annotations

from typing import Annotated

import typer

from paictl.errors import PaictlError
from paictl.frozen import frozen

Masters = Annotated[str | None, typer.Option("--masters", "-m", metavar="FILE", help="master.csv of a real cluster.")]
Workers = Annotated[
    str | None,
    typer.Option("--workers", "-w", metavar="FILE", help="worker.csv of a real cluster; changed, too."),
]
Config = Annotated[str | None, typer.Option("--config", "-c", metavar="FILE", help="config.yaml of a real cluster.")]
Seconds = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=1, help="How long pods may take to leave a real machine.")
]
AcceptNew = Annotated[
    bool, typer.Option("--accept-new-host-keys", help="Trust and show the keys of hosts without a known key.")
]


@frozen
class Files:
    """The three files of a real cluster."""

    masters: str
    workers: str
    config: str


def files_of(masters: str | None, workers: str | None, config: str | None) -> Files | None:
    """The three files; None if none is given. Raises `PaictlError` for some without the others."""
    if masters and workers and config:
        return Files(masters, workers, config)
    if masters or workers or config:
        raise PaictlError("a real cluster needs all three files", hint="-m master.csv -w worker.csv -c config.yaml")
    return None
