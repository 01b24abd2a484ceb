"""What other commands have to know of a lab: the way into it, where it runs, and how fast. They import no more of labs.

Loaded with each command that is about a cluster, so it imports late what only a lab needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paictl.cli.settings import settings
from paictl.cluster.registry import LOCAL
from paictl.cluster.targets import bound_to, chosen_name
from paictl.errors import PaictlError
from paictl.lab.folders import lab_of_shell, labs_folder
from paictl.lab.language import language_of
from paictl.lab.messages import say
from paictl.places import state_folder

if TYPE_CHECKING:
    from datetime import datetime

    from paictl.cluster.interface import Cluster
    from paictl.lab.site import LabSite
    from paictl.operate.submitting import SubmitPorts
    from paictl.units import Millis


def way_to_lab() -> str:
    """The next step for a user in a lab whose command does not reach its cluster; empty for other users."""
    from paictl.lab.fitting import session_of

    try:
        session = session_of(None)
    except PaictlError:
        return ""
    number, lang = session.lab.number, language_of(labs_folder(), lab=session.lab.id)
    if lab_of_shell():
        return say("way.anew" if session.workspace.started else "way.begin", lang, lab=number)
    return say("way.elsewhere", lang, lab=number) if session.workspace.started else ""


def lab_site() -> LabSite | None:
    """Where the lab of this shell runs, if a command is about a cluster that was added and lent to the lab."""
    if bound_to(state_folder()) == LOCAL:
        return None
    from paictl.lab.workspace import present_workspace

    workspace = present_workspace()
    site = workspace.site if workspace is not None else None
    named = chosen_name(settings.cluster, state_given=settings.state_given)
    return site if site is not None and named == site.cluster else None


def paced(cluster: Cluster) -> SubmitPorts:
    """The cluster to submit jobs to; in a lab at a site, jobs are shortened by its pace."""
    site = lab_site()
    if site is None:
        return cluster
    from paictl.lab.pacing import Paced

    return Paced(cluster, site.pace)


def wait(cluster: Cluster, span: Millis, site: LabSite) -> datetime:
    """Wait until a span of a lab's time has passed on a cluster whose clock cannot be set; the instant then."""
    from paictl.lab import pacing

    return pacing.wait(cluster, span, site.pace)
