"""Beginning a lab, going on with it, and what is left at its end."""

from __future__ import annotations

from paictl.cli import console
from paictl.cli.confirmation import check_id, confirm, showing_reports
from paictl.cli.lab.rendering import blank, heading, show_questions, show_site, show_step, tell
from paictl.cli.lab.sessions import in_lab, in_lab_shell, other_lab, session_of
from paictl.cli.settings import settings
from paictl.cluster.registry import LOCAL
from paictl.cluster.targets import open_target
from paictl.lab.fitting import session_for
from paictl.lab.folders import lab_of_shell, labs_folder
from paictl.lab.manifest import all_labs
from paictl.lab.messages import say
from paictl.lab.progress import ProgressFile
from paictl.lab.session import Session
from paictl.lab.site import LabSite
from paictl.places import user_here


def taken(session: Session, words: str, name: str | None, cluster_id: str | None, pace: float) -> LabSite | None:
    """The cluster that `--cluster` names, made the lab's once its id was said; None without one.

    Raises `LabError` for a lab that cannot run there, and a cluster that lacks what it needs or where jobs run.
    """
    if name is None or name == LOCAL:
        return None
    settings.cluster = name  # for what says where a cluster is
    from paictl.lab import registered  # late: few labs run on a cluster that was added

    registered.require_able(session.lab)
    cluster = open_target(name)
    check_id(cluster, cluster_id)
    registered.require_fit(session.lab, cluster)
    asked = say("takes-cluster", words, lab=session.lab.number, cluster=cluster.name)
    confirm(asked, cluster.name, yes=cluster_id is not None)
    with showing_reports(), console.progress(say("taking", words, cluster=cluster.name)):
        return registered.take(session.lab, name, user_here(), pace)


def begin(session: Session, words: str, *, opening: bool = False, site: LabSite | None = None) -> None:
    """Start a lab, at a `site` if given, and show its first step; `opening` if a shell is about to open in it."""
    with console.progress(say("begun", words)):
        session.start(site=site)
    session = session_for(session.lab, session.root)  # it speaks of its site from now on
    heading(f"{session.lab.number} {session.lab.title.of(words)}")
    tell("goal", words, text=session.lab.goal.of(words).strip())
    show_site(session, words)
    tell("read-it", words, lab=session.lab.number)
    blank()
    if not opening and not in_lab(session):
        _way_in(session, words)
        blank()
    show_step(session, session.lab.steps[0], words)
    tell("then", words)


def _way_in(session: Session, words: str) -> None:
    """How to get into the shell of a lab from where the student is."""
    tell("shell-after-exit" if other_lab(session) else "shell", words, lab=session.lab.number)


def go_on(session: Session, words: str) -> None:
    """Say that a lab has begun already, and show where the student is."""
    heading(f"{session.lab.number} {session.lab.title.of(words)}")
    tell("goes-on", words, at=session.progress.started[:16].replace("T", " "), lab=session.lab.number)
    show_site(session, words)
    if not in_lab(session):
        _way_in(session, words)
    session.observe()
    step = session.reading()
    if step is None:
        finish(session, words)
    else:
        session.show(step)
        show_step(session, step, words)
        tell("then", words)


def to_start(word: str | None) -> Session:
    """The lab that is named, else the one that was reset, the one after a finished one, or the first."""
    last = word or lab_of_shell() or ProgressFile(labs_folder()).read().current
    session = session_of(last or "01")
    if word is None and last and session.workspace.started and session.current_step() is None:
        return next((session_for(lab, session.root) for lab in all_labs() if lab.id > session.lab.id), session)
    return session


def finish(session: Session, words: str) -> None:
    """What is left when all steps are done."""

    tell("all-done", words)
    tell("why", words, lab=session.lab.number)
    show_questions(session, words)
    following = [lab.number for lab in all_labs() if lab.id > session.lab.id]
    if following:
        tell("next-lab-after-exit" if in_lab_shell() else "next-lab", words, lab=following[0])
    else:
        tell("report-it", words)
