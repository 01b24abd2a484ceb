"""The command tree."""

# Annotations are no texts here: every command needs these options, and typer would compile each text four times.

import os
import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from paictl import __version__
from paictl.cli.command import App, Lazy
from paictl.cli.console import Output, info, write, write_data
from paictl.cli.options import OutputOption
from paictl.errors import ExitCode
from paictl.i18n import text

_EPILOG = """
paictl config validate cluster/
paictl cluster up
paictl lab start 1
paictl help job submit

Exit codes: 0 clean or done · 1 findings or a negative answer · 2 usage or internal error · 3 partly done ·
4 unreachable · 130 interrupted

Commands that fail leave a record in the log file: paictl support log

Defaults of options: ~/.config/paictl/config.toml, or .paictl.toml in a project (output, lang, state, color, and a table
for each command, as [job.submit]).
"""

GROUPS = {
    "config": Lazy("paictl.cli.config.commands", "Validate, generate and compare configuration files."),
    "cluster": Lazy(
        "paictl.cli.cluster.commands", "Choose a cluster and show its status; start and stop the local one."
    ),
    "node": Lazy("paictl.cli.node.commands", "List and change the nodes of a cluster."),
    "job": Lazy("paictl.cli.job.commands", "Submit jobs, follow them, understand why they wait."),
    "deploy": Lazy("paictl.cli.deploy.commands", "Deploy Kubernetes and all services on real machines."),
    "service": Lazy("paictl.cli.service.commands", "List, start, stop, restart, refresh and delete services."),
    "scheduler": Lazy("paictl.cli.scheduler.commands", "Replay and explain decisions of the HiveD scheduler."),
    "maintenance": Lazy("paictl.cli.maintenance", "Plan windows in which nodes are out of service."),
    "reservation": Lazy(
        "paictl.cli.reservation", "Reserve cells for jobs that name the reservation, once or repeatedly."
    ),
    "template": Lazy("paictl.cli.template", "Job templates of tenants, from a folder or repository."),
    "storage": Lazy("paictl.cli.storage", "Named storages that jobs mount, and who may use them."),
    "usage": Lazy("paictl.cli.accounting", "Device hours by tenant, user, job and SKU."),
    "user": Lazy("paictl.cli.user", "Manage users of the REST server and the portal, and their rights."),
    "serve": Lazy("paictl.cli.serve", "Serve the REST API and the portal of a cluster.", within=True),
    "placer": Lazy("paictl.cli.placer.commands", "Place gated pods for any kube-scheduler, managed ones too."),
    "extender": Lazy("paictl.cli.extender.commands", "Serve a kube-scheduler: HiveD's guarantees on Kubernetes."),
    "controller": Lazy("paictl.cli.controller.commands", "Run the jobs of a Kubernetes cluster."),
    "sim": Lazy("paictl.cli.sim.commands", "Simulate scheduling policies on traces of jobs."),
    "lab": Lazy("paictl.cli.lab.commands", "Guided labs: learn cluster scheduling by doing."),
    "support": Lazy("paictl.cli.support", "Collect information for a problem report."),
    "completion": Lazy("paictl.cli.completion", "Print or install shell completion: bash, zsh, fish."),
}
"""The command groups: a name, the module whose `app` it is, and what help says of it."""

app = App(
    lazy=GROUPS,
    name="paictl",
    help="Administer multi-tenant GPU clusters: validate configuration, and know why something fails.",
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version_and_exit(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version_and_exit, help="Same as paictl version.")
    ] = False,
) -> None:
    """Hold the options that every command has."""


@app.command(
    epilog="""
    paictl version
    paictl version --check
    paictl version --check --index https://mirror.example/simple -o json
"""
)
def version(
    check: Annotated[
        bool, typer.Option("--check", help="Ask the package index for a newer release; exit code 1 if there is one.")
    ] = False,
    index: Annotated[
        str | None, typer.Option("--index", metavar="URL", help="Package index (default: PIP_INDEX_URL, else PyPI).")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to wait for the index.")
    ] = 10.0,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the versions of paictl and of what it runs on.

    Without --check, nothing is sent over the network.
    """
    newest, newer = _newest(index, timeout) if check else (None, False)
    system = os.uname() if hasattr(os, "uname") else None
    platform = f"{system.sysname}-{system.machine}" if system else sys.platform
    python = ".".join(str(part) for part in sys.version_info[:3])
    if output is Output.TABLE:
        write(f"paictl {__version__} (Python {python}, {platform})")
    else:
        write_data({**_about(python, platform), **({"newest": newest, "newer": newer} if check else {})}, output)
    if newer:
        info(text("paictl {version} is released: pip install --upgrade paictl", version=newest))
        raise typer.Exit(ExitCode.NEGATIVE)
    if check:
        info(text("this is the latest release") if newest else text("the package index has no release of paictl"))


def _newest(index: str | None, seconds: float) -> tuple[str | None, bool]:
    """The newest release, and whether it is newer than this."""
    from paictl.cli import releases  # late: only this question needs a network

    newest = releases.newest_release(index or releases.index_address(), seconds)
    return newest, newest is not None and releases.is_newer(newest, __version__)


def _about(python: str, platform: str) -> dict[str, object]:
    places = getattr(find_spec("yaml"), "submodule_search_locations", None) or ()
    return {
        "paictl": __version__,
        "python": python,
        "platform": platform,
        "libyaml": any(name.startswith("_yaml.") for place in places for name in os.listdir(place)),  # noqa: PTH208
    }
