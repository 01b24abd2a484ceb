"""The file of an embedded cluster: SQLite in WAL mode, one transaction a command.

`log` holds what was asked (the inputs, enough to compute everything anew), `state` the machine's state after the last
of them, `event`, `job` and `config` what people look back at. Whatever a command changes is in one transaction that is
durable before the command is acknowledged, so a kill at any moment leaves the state before or after it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from paictl import i18n
from paictl.cluster.interface import (
    ClusterError,
    ConfigVersion,
    ConflictError,
    Event,
    EventKind,
    StoreError,
    UnreachableError,
)
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.units import Millis, instant
from paictl.workload.usage import UsageKind, UsageSpan

FILE = "cluster.db"
USERS_FILE = "users.db"
"""Beside it: accounts and tokens, if there are any."""
STORAGES_FILE = "storages.json"
"""Beside it: the named storages, if there are any."""
TEMPLATES_FILE = "templates.jsonl"
"""Beside it: the libraries of job templates, if there are any."""
SCHEMA_VERSION = 3
_KEPT = "kept"
BUSY_SECONDS = 30.0
"""How long a command waits for another one that is at work on the same cluster."""

_TABLES = """
BEGIN IMMEDIATE;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), data TEXT NOT NULL);
CREATE TABLE log (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, command TEXT NOT NULL);
CREATE TABLE event (
    number INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL,
    message TEXT NOT NULL, data TEXT NOT NULL
);
CREATE INDEX event_subject ON event (subject, number);
CREATE TABLE job (
    key TEXT PRIMARY KEY, number INTEGER NOT NULL UNIQUE, ended INTEGER NOT NULL, view TEXT NOT NULL, data TEXT NOT NULL
);
CREATE TABLE config (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, message TEXT NOT NULL, files TEXT NOT NULL);
COMMIT;
"""
"""In one transaction: else each statement would be one, and wait for the disk."""
_USAGE = """
CREATE TABLE IF NOT EXISTS usage (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, vc TEXT NOT NULL, user TEXT NOT NULL, job TEXT NOT NULL,
    sku TEXT NOT NULL, devices INTEGER NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL, lost INTEGER NOT NULL
)
"""
"""Closed spans of device time; made with the first of them, because clusters of earlier versions have no such table."""


class HistoryKind(StrEnum):
    """What is kept for people to look back at, and a service can take with it when it is deleted."""

    JOBS = "jobs"
    """Jobs that ended."""
    CONFIGURATIONS = "configurations"
    """Versions of the configuration."""


@frozen
class Happened:
    """Something that happened, as `interface.Event`, at an instant of the cluster's clock."""

    number: int
    at: Millis
    kind: EventKind
    subject: str
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def event(self, epoch: datetime) -> Event:
        """The same with its date."""
        when = instant(epoch, self.at)
        return Event(self.number, when, self.kind, self.subject, self.message, self.data)


@frozen
class Pushed:
    """A version of the configuration, as `interface.ConfigVersion`, at an instant of the cluster's clock."""

    number: int
    at: Millis
    message: str
    files: Mapping[str, str]

    def version(self, epoch: datetime) -> ConfigVersion:
        """The same with its date."""
        return ConfigVersion(self.number, instant(epoch, self.at), self.message, self.files)


@frozen
class JobRow:
    """A job as stored; `number` is its place in the order of submission, `view` what a list of jobs shows of it."""

    key: str
    number: int
    ended: bool
    view: Mapping[str, Any]
    data: Mapping[str, Any]


def file_of(folder: Path) -> Path:
    """The file of the cluster in a folder."""
    return folder / FILE


class Store:
    """One open cluster file. Use `reading` or `writing` around every access."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self._db = connection
        self._more: Counter[str] = Counter()
        # Closed with the last who uses it, before the collector looks at the connection itself: a `__del__` would run
        # in no particular order with the connection's own, which since 3.13 complains about being left open.
        self.close = weakref.finalize(self, connection.close)
        """Close the file; once more does nothing."""

    @classmethod
    def exists(cls, folder: Path) -> bool:
        """Whether a cluster lives in a folder."""
        with explained(folder):
            return (folder / FILE).is_file()

    @classmethod
    def create(cls, folder: Path, fill: Callable[[Store], None]) -> Store:
        """A new cluster file that only its owner may read, with what `fill` puts into it.

        It comes into being whole: a kill on the way leaves none. Raises `ConflictError` if one is there.
        """
        if cls.exists(folder):
            raise ConflictError(
                "a cluster is already up here",
                where=str(folder),
                hint="take it down first: paictl cluster down; or use --state DIR",
            )
        with explained(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = folder / f"{FILE}.{os.getpid()}.new"
            _remove_drafts(folder)
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            try:
                db = sqlite3.connect(draft, isolation_level=None)
                store = cls(folder, db)
                db.executescript(_TABLES)
                with store.writing():
                    store.set_meta("schema", SCHEMA_VERSION)
                    fill(store)
                store.close()
                os.link(draft, folder / FILE)  # fails if somebody else was faster, unlike a rename
            except FileExistsError:
                raise ConflictError("another command has just brought a cluster up here", where=str(folder)) from None
            finally:
                draft.unlink(missing_ok=True)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Store:
        """The cluster in a folder; raises `UnreachableError` if there is none."""
        if not cls.exists(folder):
            hint = (
                "bring one up: paictl cluster up; "
                "for a Kubernetes cluster: paictl cluster add NAME, then --cluster NAME"
            )
            raise UnreachableError("no cluster is up", where=str(folder), hint=hint)
        with explained(folder):
            store = cls(folder, _connected(folder / FILE))
            version = store.meta("schema") if store.filled() else None
        if version is None:
            raise ClusterError("not a cluster, or an empty one", where=str(folder / FILE), hint=_DOWN)
        if version != SCHEMA_VERSION:
            raise ClusterError(
                i18n.text(
                    "was made by another version of paictl (state version {found}, this one reads {schema_version})",
                    found=version,
                    schema_version=SCHEMA_VERSION,
                ),
                where=str(folder),
                hint="use it with that version, or take it down: paictl cluster down",
            )
        return store

    @classmethod
    def remove(cls, folder: Path) -> None:
        """Remove the files of a cluster; the folder stays if it holds anything else."""
        with explained(folder):
            beside = (USERS_FILE, f"{USERS_FILE}-journal", STORAGES_FILE, f"{STORAGES_FILE}.lock")
            further = (TEMPLATES_FILE, f"{TEMPLATES_FILE}.lock")
            for name in (FILE, f"{FILE}-wal", f"{FILE}-shm", *beside, *further):
                (folder / name).unlink(missing_ok=True)
            _remove_drafts(folder)
            if not any(folder.iterdir()):
                folder.rmdir()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A consistent view for several reads."""
        with explained(self.folder):
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One atomic change; waits for other writers, and leaves everything as it was if the block raises."""
        with explained(self.folder):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._more.clear()
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def version(self) -> int:
        """A number that changes when another process has written; asked within `reading`."""
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    def filled(self) -> bool:
        """Whether the file holds the tables of a cluster."""
        return self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is not None

    # --- what is stored

    def meta(self, key: str) -> Any:
        """A setting, None if it was never set."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return _parsed(row[0]) if row else None

    def set_meta(self, key: str, value: object) -> None:
        """Set a setting to any JSON value."""
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    def state(self) -> dict[str, Any]:
        """The state of the machine."""
        row = self._db.execute("SELECT data FROM state").fetchone()
        if row is None:
            raise ClusterError("the cluster's state is missing", where=str(self.folder), hint=_DOWN)
        state: dict[str, Any] = _parsed(row[0])
        return state

    def set_state(self, data: Mapping[str, Any]) -> None:
        """Replace the state of the machine."""
        self._db.execute("INSERT OR REPLACE INTO state VALUES (1, ?)", (_json(data),))

    def log(self) -> Iterator[tuple[Millis, dict[str, Any]]]:
        """(instant, command) of everything that was ever asked, in order."""
        for at, command in self._db.execute("SELECT at, command FROM log ORDER BY number"):
            yield Millis(at), _parsed(command)

    def append_log(self, at: Millis, command: Mapping[str, Any]) -> None:
        """Note a command."""
        line = _json(command)
        self._count(str(command.get("key") or _first_key(command)), line)
        self._db.execute("INSERT INTO log (at, command) VALUES (?, ?)", (at, line))

    def seal(self) -> list[int]:
        """What changes with every command (its number in the log), and with whatever damages the state (its CRC-32)."""
        (number,) = self._db.execute("SELECT coalesce(max(number), 0) FROM log").fetchone()
        row = self._db.execute("SELECT data FROM state").fetchone()
        return [number, zlib.crc32(row[0].encode()) if row else 0]

    def append_events(self, events: Iterable[Happened]) -> None:
        """Note what happened."""
        rows = [(e.number, e.at, e.kind, e.subject, e.message, _json(e.data)) for e in events]
        for *_, subject, message, data in rows:
            self._count(subject.removeprefix("job/"), message, data)
        self._db.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)", rows)

    def events(self, subject: str | None = None, after: int = 0) -> Iterator[Happened]:
        """Events with a higher number than `after`, of one object or of all."""
        where, values = ("subject = ? AND ", [subject]) if subject else ("", [])
        query = f"SELECT * FROM event WHERE {where}number > ? ORDER BY number"  # noqa: S608 - constants only
        for number, at, kind, target, message, data in self._db.execute(query, (*values, after)):
            yield Happened(number, Millis(at), EventKind(kind), target, message, _parsed(data))

    def count_events(self, kind: EventKind) -> int:
        """How often something has happened."""
        number: int = self._db.execute("SELECT count(*) FROM event WHERE kind = ?", (kind,)).fetchone()[0]
        return number

    def append_usage(self, spans: Iterable[UsageSpan]) -> None:
        """Add closed spans of device time to the books."""
        rows = [(s.kind, s.vc, s.user, s.job, s.sku, s.devices, s.start, s.end, s.lost) for s in spans]
        if rows:
            self._db.execute(_USAGE)
            self._db.executemany("INSERT INTO usage VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def usage(self, start: Millis, end: Millis) -> Iterator[UsageSpan]:
        """Closed spans that reach into a window, in the order in which they were closed."""
        if self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'usage'").fetchone() is None:
            return
        columns = 'kind, vc, user, job, sku, devices, start, "end", lost'
        query = f'SELECT {columns} FROM usage WHERE "end" > ? AND start < ? ORDER BY number'  # noqa: S608
        for kind, vc, user, job, sku, devices, since, until, lost in self._db.execute(query, (start, end)):
            span = UsageSpan(UsageKind(kind), vc, user, job, sku, devices, Millis(since), Millis(until), bool(lost))
            yield span

    def put_jobs(self, rows: Iterable[JobRow]) -> None:
        """Add or replace jobs."""
        values = [(row.key, row.number, row.ended, _json(row.view), _json(row.data)) for row in rows]
        for key, *_, view, data in values:
            if not self.taken_keys([key]):  # else it is put over what was counted
                self._count(key, view, data)
        self._db.executemany("INSERT OR REPLACE INTO job VALUES (?, ?, ?, ?, ?)", values)

    # --- how much is kept of whom

    def kept(self) -> dict[str, int]:
        """Characters in log, events and ended jobs, by user, with those that are about to be written."""
        stored = self.meta(_KEPT)
        if stored is None:  # of a cluster of an earlier version, what jobs show of it
            query = "SELECT substr(key, 1, instr(key, '~') - 1), sum(length(view) + length(data)) FROM job GROUP BY 1"
            stored = dict(self._db.execute(query))
        return dict(Counter(stored) + self._more)

    def note_kept(self) -> None:
        """Write down what was counted since the last time."""
        if self._more:
            self.set_meta(_KEPT, self.kept())
            self._more.clear()

    def _count(self, key: str, *texts: str) -> None:
        user, tilde, _ = key.partition("~")
        if tilde:
            self._more[user] += sum(map(len, texts))

    def forget_jobs(self) -> None:
        """Delete all stored jobs."""
        self._db.execute("DELETE FROM job")

    def ended_jobs(self) -> Iterator[JobRow]:
        """The jobs for which nothing more will happen, in order of submission."""
        return map(_job, self._db.execute("SELECT * FROM job WHERE ended = 1 ORDER BY number"))

    def ended_views(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(number, view) of the same jobs, without reading all that is known of them."""
        query = "SELECT number, view FROM job WHERE ended = 1 ORDER BY number"
        return ((number, _parsed(view)) for number, view in self._db.execute(query))

    def ended_index(self, users: Iterable[str] = ()) -> Iterator[tuple[int, str, str, str, int, str | None]]:
        """(number, key, VC, state, end, tags as JSON) of them, of some users or (none given) of all, in no order."""
        columns = ", ".join(f"json_extract(view, '$.{name}')" for name in ("vc", "state", "ended", "tags"))
        query = f"SELECT number, key, {columns} FROM job WHERE ended = 1"  # noqa: S608 - constants only
        if not (wanted := tuple(users)):
            return self._db.execute(query)
        # All keys of a user stand together in the index: behind "ann~" comes nothing else before "ann\x7f".
        ranges = ((user + "~", user + "\x7f") for user in wanted)
        return (row for pair in ranges for row in self._db.execute(query + " AND key > ? AND key < ?", pair))

    def views_of(self, numbers: Iterable[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """(number, view) of some of them."""
        for number in numbers:
            yield number, _parsed(self._db.execute("SELECT view FROM job WHERE number = ?", (number,)).fetchone()[0])

    def count_jobs(self) -> int:
        """How many jobs are stored."""
        return int(self._db.execute("SELECT count(*) FROM job").fetchone()[0])

    def job(self, key: str) -> JobRow | None:
        """One job, or None."""
        row = self._db.execute("SELECT * FROM job WHERE key = ?", (key,)).fetchone()
        return _job(row) if row else None

    def job_keys(self) -> list[str]:
        """The keys of all stored jobs, in order of submission."""
        return [key for (key,) in self._db.execute("SELECT key FROM job ORDER BY number")]

    def taken_keys(self, keys: Iterable[str]) -> list[str]:
        """Those keys that a stored job has."""
        return [key for key in keys if self._db.execute("SELECT 1 FROM job WHERE key = ?", (key,)).fetchone()]

    def put_config(self, number: int, at: Millis, message: str, files: Mapping[str, str]) -> None:
        """Add a version of the configuration."""
        self._db.execute("INSERT INTO config VALUES (?, ?, ?, ?)", (number, at, message, _json(files)))

    def newest_config(self) -> int:
        """Number of the newest version of the configuration, 0 if there is none."""
        return int(self._db.execute("SELECT coalesce(max(number), 0) FROM config").fetchone()[0])

    def forget_configs(self) -> None:
        """Delete all versions of the configuration."""
        self._db.execute("DELETE FROM config")

    def configs(self) -> Iterator[Pushed]:
        """All versions of the configuration, oldest first."""
        for number, at, message, files in self._db.execute("SELECT * FROM config ORDER BY number"):
            yield Pushed(number, Millis(at), message, _parsed(files))


def _connected(path: Path) -> sqlite3.Connection:
    """The file, open for writing; where nothing may be written, open for reading.

    WAL cannot be read without files beside it. So where these cannot be made the main file alone is read, provided
    that everything is in it, as it is unless the last command was killed.
    """
    # One thread at a time uses a store, but the one in which it is closed at last may be another.
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
    except sqlite3.DatabaseError as error:
        log = path.with_name(f"{path.name}-wal")
        whole = not log.exists() or log.stat().st_size == 0
        if not (whole and any(word in str(error) for word in ("readonly", "unable to open", "disk I/O error", "full"))):
            db.close()
            raise
        db.close()
        db = sqlite3.connect(
            f"{path.resolve().as_uri()}?immutable=1", uri=True, isolation_level=None, check_same_thread=False
        )
        db.execute("SELECT 1 FROM meta")
    return db


def _job(row: tuple[str, int, int, str, str]) -> JobRow:
    key, number, ended, view, data = row
    return JobRow(key, number, bool(ended), _parsed(view), _parsed(data))


def _parsed(text: str) -> Any:
    """A stored JSON value; raises `ClusterError` for one that bad hardware has changed."""
    try:
        return json.loads(text)
    except ValueError:
        raise damaged() from None


@contextmanager
def whole() -> Iterator[None]:
    """Raise `ClusterError` where what was stored cannot be read as what it should be."""
    try:
        yield
    except PaictlError:
        raise
    except Exception as error:
        raise damaged() from error


def damaged() -> ClusterError:
    """What is in the file was not written so."""
    return ClusterError("the cluster's state file is corrupt", where=FILE, hint=_DOWN)


def _remove_drafts(folder: Path) -> None:
    """Remove what a `cluster up` that was killed left, unless its process is still at work."""
    for draft in folder.glob(f"{FILE}.*.new*"):
        number = draft.name.removeprefix(f"{FILE}.").partition(".")[0]
        if not (number.isdecimal() and int(number) != os.getpid() and Path(f"/proc/{number}").exists()):
            draft.unlink(missing_ok=True)


def _first_key(command: Mapping[str, Any]) -> str:
    """A job of those who submit with a command; they come from one user together. Empty for other commands."""
    jobs: Sequence[Mapping[str, Any]] = command.get("jobs") or ({},)
    return f"{jobs[0]['user']}~" if "user" in jobs[0] else ""


def _json(data: object) -> str:
    """Data as JSON, keys in their order: a job's task roles are numbered in that of its file."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


@contextmanager
def explained(folder: Path, file: str = FILE) -> Iterator[None]:
    """Turn what the disk and SQLite say into an error that tells what to do."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        hint = next(
            (hint for word, hint in _HINTS if word in text), "check the folder, or use another one with --state DIR"
        )
        raise StoreError(
            i18n.text("the cluster's file cannot be used: {text}", text=text), where=str(folder / file), hint=hint
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(
            i18n.text("the cluster's folder cannot be used: {reason}", reason=reason),
            where=str(folder),
            hint="free some space, check permissions, or choose another with --state DIR",
        ) from None


_DOWN = "it cannot be repaired: take it down with paictl cluster down, and start a new one"

_HINTS = (
    ("locked", f"another paictl command has been using the cluster for over {BUSY_SECONDS:.0f} s; try again"),
    ("full", "the disk is full; free some space and try again, nothing was changed"),
    (
        "readonly",
        "the disk is full, or the folder or file is read-only; free some space, or use another folder: --state DIR",
    ),
    ("unable to open", "check that the folder is yours and writable, or use another one with --state DIR"),
    ("disk I/O error", "the disk may be full or failing; free some space and try again, nothing was changed"),
    ("UTF-8", _DOWN),
    ("malformed", _DOWN),
    ("not a database", f"the file is not a paictl cluster; {_DOWN}"),
)
