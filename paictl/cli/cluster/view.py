"""`paictl cluster view`: the cluster as a picture, in the terminal, as data or as a page for the browser."""

from __future__ import annotations

import math
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paictl import i18n
from paictl.cli import console
from paictl.cli.cluster.picture import By
from paictl.cli.cluster.picture.lines import picture_lines
from paictl.cli.cluster.picture.marks import marks
from paictl.cli.clusters import OutputOption, StateOption, open_cluster
from paictl.cli.command import App
from paictl.cli.console import PIPE_WIDTH, Output, write_data, write_segments
from paictl.cli.options import WatchTimeout
from paictl.cli.segments import Line
from paictl.cluster.interface import Cluster
from paictl.cluster.page import page
from paictl.cluster.picture import picture_data
from paictl.errors import PaictlError
from paictl.files import write_together

if TYPE_CHECKING:
    from rich.text import Text


app = App()

_EVERY = 1.0
"""Seconds between two pictures with --watch."""


@app.command(
    epilog="""
    paictl cluster view
    paictl cluster view --watch
    paictl cluster view --html cluster.html
    paictl cluster view -o json
"""
)
def view(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh every second, until Ctrl-C.")] = False,
    timeout: WatchTimeout = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page with the timeline of all jobs; it opens offline."),
    ] = None,
    by: Annotated[By, typer.Option("--by", help="What the letters stand for; auto: jobs, if there are few.")] = By.AUTO,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """Show who uses which devices, what the virtual clusters have, and what is bad, doomed or reserved."""
    if watch and (html is not None or output is not Output.TABLE):
        raise PaictlError("--watch draws in the terminal only", hint="leave out --html and --output")
    if html is not None and output is not Output.TABLE:
        raise PaictlError("--html writes a page, and --output asks for another format", hint="ask for one of them")
    cluster: Cluster = open_cluster(state)
    if html is not None:
        _write_page(cluster, html)
    elif output is not Output.TABLE:
        write_data(picture_data(cluster.picture(history=True)), output)
    elif watch:
        _watch(cluster, by, math.inf if timeout is None else timeout)
    else:
        write_segments(_lines(cluster, by, shutil.get_terminal_size((PIPE_WIDTH, 24)).columns))


def _lines(cluster: Cluster, by: By, width: int) -> list[Line]:
    picture = cluster.picture()
    return picture_lines(picture, marks(picture, by), width)


def _write_page(cluster: Cluster, path: Path) -> None:
    """Write the page whole or not at all; an older one is replaced only when the new one is complete."""
    if not path.parent.is_dir():
        raise PaictlError("cannot be written: no such folder", where=str(path), hint="name another file")
    try:
        write_together(path.parent, {path.name: page(cluster.picture(history=True))}, force=True)
    except PaictlError as error:
        error.where, error.hint = str(path), "name another file"
        raise
    console.info(i18n.text("wrote {path}; open it in a browser", path=path))


def _watch(cluster: Cluster, by: By, seconds: float = math.inf) -> None:
    """Redraw in place until Ctrl-C or the time is over; what does not fit the window is left out, and said so."""
    from rich.live import Live

    if not sys.stdout.isatty():
        raise PaictlError("--watch needs a terminal", hint="leave it out, or use: paictl cluster view -o json")
    screen, end = console.stdout(), time.monotonic() + seconds
    with Live(console=screen, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_fitted(_lines(cluster, by, screen.width), screen.height), refresh=True)
            if time.monotonic() + _EVERY > end:
                return
            time.sleep(_EVERY)


def _fitted(lines: list[Line], height: int) -> Text:
    """The lines as one text of at most `height` lines."""
    from rich.text import Text

    if len(lines) > height:
        left = len(lines) - height + 1
        lines = [*lines[: height - 1], [("bold", f"... {left} more lines; a taller window or --html shows them")]]
    texts = [Text.assemble(*((text, style) for style, text in line)) for line in lines]
    return Text("\n", no_wrap=True, overflow="crop").join(texts)
