"""A lab's workspace: its own folder, and the cluster that belongs to it.

A lab's folder is a state folder of paictl (`PAICTL_STATE` may name it) that holds, beside the cluster, the mark that
makes it a lab's, the commands that were typed, the files on which the student works, and how all that was when the
student came to each step (`steps/ID`), so that a step can be taken back.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from paictl.cluster.registry import LOCAL
from paictl.cluster.targets import bind
from paictl.files import lock
from paictl.frozen import frozen
from paictl.lab import commandlog, embedded, requests
from paictl.lab.folders import MARK, is_lab
from paictl.lab.manifest import Lab
from paictl.lab.messages import LabError, writing
from paictl.lab.observation import Watched
from paictl.lab.site import LabSite, site_from
from paictl.places import state_folder

FILES: Final = "files"
STEPS: Final = "steps"
_NOTES: Final = (MARK, commandlog.FILE, requests.FILE)
"""What is kept of a workspace beside its cluster and the student's files."""


@frozen
class Workspace:
    """A lab's folder; the cluster in it may be up or not."""

    folder: Path

    @property
    def files(self) -> Path:
        """Where the student works."""
        return self.folder / FILES

    @property
    def lab_id(self) -> str:
        """Id of the lab: what its folder is called."""
        return self.folder.name

    @property
    def first_event(self) -> int:
        """Number of the last event before the student began."""
        return int(self._mark().get("events", 0))

    @property
    def started(self) -> bool:
        """Whether the lab was started and not reset since."""
        return is_lab(self.folder)

    @property
    def site(self) -> LabSite | None:
        """Where the lab runs if not on a cluster of its own."""
        data = self._mark().get("site")
        return None if data is None else site_from(data)

    @property
    def known_site(self) -> LabSite | None:
        """As `site`; None where the mark is damaged, so that nobody can say."""
        try:
            return self.site
        except LabError:
            return None

    @property
    def cluster_name(self) -> str:
        """What the lab's cluster is called in this shell."""
        site = self.site
        return LOCAL if site is None else site.cluster

    def require_mark(self) -> None:
        """Raise `LabError` that leads on if the mark is damaged."""
        self._mark()

    def _mark(self) -> dict[str, Any]:
        path = self.folder / MARK
        try:
            mark: Any = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        except (OSError, ValueError):
            mark = None
        if not isinstance(mark, dict):
            raise LabError("mark-damaged", where=str(path), lab=self.folder.name[:2])
        return mark

    def require_files(self) -> Path:
        """The folder where the student works; raises `LabError` that leads on if somebody took it away."""
        if not self.files.is_dir():
            raise LabError("files-gone", where=str(self.files), lab=self.folder.name[:2])
        return self.files

    def cluster(self) -> Watched | None:
        """The lab's cluster; None where the lab began without one and none is up yet.

        Raises `PaictlError` that leads on if the one with which it began is gone.
        """
        if (site := self.site) is not None:
            from paictl.lab import registered  # late: few labs run there, and it needs much

            return registered.watched(site)
        if not embedded.is_up(self.folder) and self._mark().get("empty", False):
            return None
        return embedded.open_cluster(self.folder)

    def note_beginning(self, events: int) -> None:
        """Note how many events there were when the student's own cluster came up, once."""
        mark = self._mark()
        if mark.get("empty") and not mark["events"]:
            with writing(self.folder):
                (self.folder / MARK).write_text(json.dumps({**mark, "events": events}) + "\n", encoding="utf-8")

    def log(self) -> embedded.Log:
        """(instant, command) of everything that changed the cluster, for the report."""
        return embedded.log_of(self.folder) if embedded.is_up(self.folder) else []

    def start(self, lab: Lab, site: LabSite | None = None) -> None:
        """Bring the lab's cluster up, if it begins with one and has no `site`, and lay out the student's files."""
        if site is not None:
            mark: dict[str, Any] = {"lab": lab.id, "events": 0, "site": site.data()}
            with writing(self.folder):
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                bind(self.folder, site.cluster)
        elif lab.has_cluster:
            cluster = embedded.bring_up(self.folder, lab)
            mark = {"lab": lab.id, "events": len(cluster.events())}
        else:
            embedded.prepare(self.folder)
            mark = {"lab": lab.id, "events": 0, "empty": True}
        with writing(self.folder):
            self.files.mkdir(exist_ok=True)
            for path in lab.files():
                shutil.copyfile(path, self.files / path.name)
            (self.folder / MARK).write_text(json.dumps(mark) + "\n", encoding="utf-8")

    def remove(self) -> None:
        """Forget the cluster, what was typed and the student's files.

        The mark goes first, so that a removal that was interrupted leaves no lab; the empty folder of the files stays,
        for a shell may stand in it.
        """
        with writing(self.folder):
            (self.folder / MARK).unlink(missing_ok=True)
            for folder in (self.files, self.folder):
                _empty(folder, spare=self.files)

    # --- as it was when the student came to a step

    def has_kept(self, step: str) -> bool:
        """Whether it is known how things were when the student came to a step."""
        return (self.folder / STEPS / step).is_dir()

    def changed_files(self, step: str) -> tuple[str, ...]:
        """The student's files that are not as they were then, by their paths in the folder; in order."""
        before, now = self.folder / STEPS / step / FILES, self.files
        names = {path.relative_to(top) for top in (before, now) for path in top.rglob("*") if not path.is_dir()}
        return tuple(sorted(str(name) for name in names if _content(before / name) != _content(now / name)))

    def copy_to(self, target: Path, more: Mapping[str, str]) -> None:
        """Copy cluster, commands and files, and write `more` texts by file name beside them.

        What stands in `target` goes when the copy is whole. One copy at a time: a server in the lab judges requests in
        a thread of its own, beside the command that made them.
        """
        draft = target.with_name(f"{target.name}.{os.getpid()}")
        with writing(target), _locked(self.folder):
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            for name in _NOTES:
                if (self.folder / name).is_file():
                    shutil.copyfile(self.folder / name, draft / name)
            if self.files.is_dir():
                shutil.copytree(self.files, draft / FILES, symlinks=True)
            if embedded.is_up(self.folder):
                embedded.copy_cluster(self.folder, draft)
            for name, text in more.items():
                (draft / name).write_text(text, encoding="utf-8")
            shutil.rmtree(target, ignore_errors=True)
            draft.rename(target)

    def restore(self, source: Path) -> None:
        """Put back what `copy_to` has copied; shells that stand in the folder of the files stay in it."""
        with writing(self.folder):
            self.files.mkdir(parents=True, exist_ok=True)
            _empty(self.files)
            if (source / FILES).is_dir():
                shutil.copytree(source / FILES, self.files, symlinks=True, dirs_exist_ok=True)
            for name in _NOTES:
                (self.folder / name).unlink(missing_ok=True)
                if (source / name).is_file():
                    shutil.copyfile(source / name, self.folder / name)
            if embedded.is_up(source):
                embedded.copy_cluster(source, self.folder)
            else:
                embedded.remove_cluster(self.folder)
                embedded.prepare(self.folder)

    def return_to(self, step: str, later: tuple[str, ...]) -> None:
        """Make things as they were when the student came to a step; what was kept of `later` ones goes."""
        self.restore(self.folder / STEPS / step)
        for name in later:
            shutil.rmtree(self.folder / STEPS / name, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        lock(handle)
        yield
    finally:
        os.close(handle)


def _content(path: Path) -> bytes | None:
    """What a file holds; None for one that is not there or cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def _empty(folder: Path, spare: Path | None = None) -> None:
    """Remove everything in a folder, except one that stands in it."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        elif path != spare:
            shutil.rmtree(path)


def present_workspace() -> Workspace | None:
    """The workspace that this shell is in (`PAICTL_STATE` names its folder), or None."""
    folder = state_folder()
    return Workspace(folder) if is_lab(folder) else None
