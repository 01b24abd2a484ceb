"""The command tree."""

from __future__ import annotations

from typing import Annotated

import typer

from paictl.cli import job, node, service
from paictl.cli.cluster import commands as cluster
from paictl.cli.config import commands as config
from paictl.cli.console import Output, write, write_data
from paictl.cli.lab import commands as lab
from paictl.cli.options import OutputOption
from paictl.cli.scheduler import commands as scheduler
from paictl.cli.settings import settings
from paictl.cli.sim import commands as sim

_EPILOG = (
    "Exit codes: 0 clean or done · 1 findings or a negative answer · 2 usage or internal error · 3 partly done · "
    "4 unreachable · 130 interrupted"
)

app = typer.Typer(
    name="paictl",
    help="Administer multi-tenant GPU clusters: validate configuration, and know why something fails.",
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(config.app, name="config")
app.add_typer(cluster.app, name="cluster")
app.add_typer(node.app, name="node")
app.add_typer(job.app, name="job")
app.add_typer(service.app, name="service")
app.add_typer(scheduler.app, name="scheduler")
app.add_typer(sim.app, name="sim")
app.add_typer(lab.app, name="lab")


def _version_and_exit(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def root(
    verbose: Annotated[int, typer.Option("--verbose", "-v", count=True, help="Say more on stderr.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on stderr but errors.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an internal error.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours (as NO_COLOR=1).")] = False,
    no_input: Annotated[bool, typer.Option("--no-input", help="Never ask; fail where an answer is needed.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version_and_exit, help="Same as paictl version.")
    ] = False,
) -> None:
    """Take the global options, which may stand anywhere on the command line."""
    settings.verbosity = -1 if quiet else verbose
    settings.debug = debug
    settings.color = False if no_color else None
    settings.interactive = not no_input


@app.command()
def version(
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the version of paictl and of what it runs on."""
    import platform
    from importlib.util import find_spec
    from pathlib import Path

    from paictl import __version__

    places = getattr(find_spec("yaml"), "submodule_search_locations", None) or ()
    data = {
        "paictl": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()}-{platform.machine()}",
        "libyaml": any(next(Path(place).glob("_yaml.*"), None) for place in places),
    }
    if output is Output.TABLE:
        write(f"paictl {__version__} (Python {data['python']}, {data['platform']})")
    else:
        write_data(data, output)
