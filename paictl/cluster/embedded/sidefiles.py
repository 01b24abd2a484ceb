"""What lies beside the file of a cluster on this machine: accounts and tokens, named storages, template libraries.

The accounts are an SQLite file of its own, which no report of a lab ever holds. It is made when the first account is,
and opened for each request: a request takes a fraction of a millisecond, comes from any thread, and leaves
nothing open. Storages and libraries are a text file each, changed under a lock.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from paictl.cluster.accounts import (
    Account,
    LastAdministratorError,
    Token,
    account_data,
    account_from,
    token_data,
    token_from,
)
from paictl.cluster.conflicts import account_changed, account_there
from paictl.cluster.embedded.store import BUSY_SECONDS, STORAGES_FILE, TEMPLATES_FILE, USERS_FILE, explained, whole
from paictl.cluster.storages import Storage, added, granted, storage_named, storages_from, storages_text, without
from paictl.cluster.templates import TemplateLibrary, library_from, library_named, library_text, with_library
from paictl.cluster.values import ClusterError
from paictl.files import locked, write_together

_SCHEMA: Final = 1
_TABLES: Final = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS account (name TEXT PRIMARY KEY, version TEXT NOT NULL, data TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS token (digest TEXT PRIMARY KEY, user TEXT NOT NULL, data TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS token_user ON token (user);
PRAGMA user_version = 1;
COMMIT;
"""


class EmbeddedUsers:
    """The accounts of the cluster in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def accounts(self) -> Sequence[Account]:
        """All accounts by name."""
        return [_account(*row) for row in self._read("SELECT version, data FROM account ORDER BY name")]

    def account(self, name: str) -> Account | None:
        """An account as it is now."""
        rows = self._read("SELECT version, data FROM account WHERE name = ?", name)
        return _account(*rows[0]) if rows else None

    def put_account(self, account: Account) -> Account:
        """Make an account, or put it over the version that it names."""
        data, version = json.dumps(account_data(account)), secrets.token_hex(8)
        with self._writing() as db:
            if account.version and not account.admin:
                _keep_administrator(db, account.name)
            if account.version:
                values = (data, version, account.name, account.version)
                done = db.execute("UPDATE account SET data = ?, version = ? WHERE name = ? AND version = ?", values)
            else:
                done = db.execute("INSERT OR IGNORE INTO account VALUES (?, ?, ?)", (account.name, version, data))
            if not done.rowcount:
                raise account_changed(account.name) if account.version else account_there(account.name)
        return account_from(account_data(account), version)

    def remove_account(self, name: str, version: str = "") -> None:
        """Remove an account with its tokens, with `version` only that state of it."""
        with self._writing() as db:
            known = db.execute("SELECT version FROM account WHERE name = ?", (name,)).fetchone()
            if version and known not in (None, (version,)):
                raise account_changed(name)
            _keep_administrator(db, name)
            db.execute("DELETE FROM account WHERE name = ?", (name,))
            db.execute("DELETE FROM token WHERE user = ?", (name,))

    def tokens(self, user: str) -> Sequence[Token]:
        """The tokens of a user, oldest first."""
        return [_token(*row) for row in self._read("SELECT data FROM token WHERE user = ? ORDER BY rowid", user)]

    def token(self, digest: str) -> Token | None:
        """A token by its hash."""
        rows = self._read("SELECT data FROM token WHERE digest = ?", digest)
        return _token(*rows[0]) if rows else None

    def add_token(self, token: Token) -> None:
        """Keep a token."""
        row = (token.digest, token.user, json.dumps(token_data(token)))
        with self._writing() as db:
            db.execute("INSERT INTO token VALUES (?, ?, ?)", row)

    def remove_tokens(self, digests: Iterable[str]) -> int:
        """Take tokens away; how many there were."""
        with self._writing() as db:
            rows = [(digest,) for digest in digests]
            return max(0, db.executemany("DELETE FROM token WHERE digest = ?", rows).rowcount)

    # --- the way to the disk and back

    def _read(self, query: str, *values: str) -> list[Any]:
        """The rows of a query; none if there is no file yet."""
        path = self._folder / USERS_FILE
        with explained(self._folder, USERS_FILE):
            if not path.is_file():
                return []
            with closing(_opened(path)) as db:
                return db.execute(query, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One atomic change, durable when the block is left; the file is made, for its owner only, if there is none."""
        path = self._folder / USERS_FILE
        with explained(self._folder, USERS_FILE):
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            with closing(_opened(path)) as db:
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield db
                except BaseException:
                    if db.in_transaction:  # a full disk has ended it already
                        db.execute("ROLLBACK")
                    raise
                db.execute("COMMIT")


def _keep_administrator(db: sqlite3.Connection, user: str) -> None:
    """Raise `LastAdministratorError` if `leaving` is the only one; within the transaction that writes."""
    administrators = db.execute("SELECT name FROM account WHERE json_extract(data, '$.admin') LIMIT 2").fetchall()
    if administrators == [(user,)]:
        raise LastAdministratorError(user)


def _opened(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            db.executescript(_TABLES)
        elif version != _SCHEMA:
            raise ClusterError(
                "the users of this cluster were stored by another version of paictl",
                where=str(path),
                hint="use it with that version",
            )
        db.execute("PRAGMA synchronous = FULL")
    except BaseException:
        db.close()
        raise
    return db


def _account(version: str, data: str) -> Account:
    with whole():
        return account_from(json.loads(data), version)


def _token(data: str) -> Token:
    with whole():
        return token_from(json.loads(data))


# --- storages


@contextmanager
def _alone(folder: Path, file: str) -> Iterator[None]:
    """Change a file as the only process that does."""
    with explained(folder, file), locked(folder / f"{file}.lock"):
        yield


class EmbeddedStorages:
    """The storages of the cluster in a folder; none if there is no file yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> tuple[Storage, ...]:
        """All storages by name."""
        path = self._folder / STORAGES_FILE
        with explained(self._folder, STORAGES_FILE):
            return storages_from(path.read_text(encoding="utf-8")) if path.is_file() else ()

    def add(self, storage: Storage) -> None:
        """Add a storage."""
        self._changed(lambda storages: added(storages, storage))

    def grant(self, name: str, add: Sequence[str], revoke: Sequence[str]) -> Storage:
        """Change which virtual clusters may use a storage."""
        return storage_named(self._changed(lambda storages: granted(storages, name, add, revoke)), name)

    def remove(self, name: str) -> None:
        """Remove a storage."""
        self._changed(lambda storages: without(storages, name))

    def _changed(self, change: Callable[[Sequence[Storage]], tuple[Storage, ...]]) -> tuple[Storage, ...]:
        """Storages after a change."""
        with _alone(self._folder, STORAGES_FILE):
            after = change(self.read())
            write_together(self._folder, {STORAGES_FILE: storages_text(after)}, force=True, mode=0o600)
            return after


# --- template libraries

Libraries = tuple[TemplateLibrary, ...]


class EmbeddedTemplates:
    """The template libraries of the cluster in a folder, a line each; none if there is no file yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> Libraries:
        """All libraries by name."""
        path = self._folder / TEMPLATES_FILE
        with explained(self._folder, TEMPLATES_FILE):
            lines = path.read_text(encoding="utf-8").split("\n") if path.is_file() else ()
        return tuple(map(library_from, filter(None, lines)))

    def put(self, library: TemplateLibrary, *, new: bool) -> None:
        """Add a library, or replace the one of its name."""
        self._change(lambda libraries: with_library(libraries, library, new=new))

    def remove(self, name: str) -> None:
        """Remove a library."""

        def without(libraries: Libraries) -> Libraries:
            library_named(libraries, name)
            return tuple(library for library in libraries if library.name != name)

        self._change(without)

    def _change(self, change: Callable[[Libraries], Libraries]) -> None:
        """Change the libraries."""
        with _alone(self._folder, TEMPLATES_FILE):
            written = "".join(f"{library_text(library)}\n" for library in change(self.read()))
            write_together(self._folder, {TEMPLATES_FILE: written}, force=True, mode=0o600)


# --- all of them


class SideFiles:
    """What lies beside the file of the cluster in a folder."""

    def __init__(self, folder: Path) -> None:
        self.users = EmbeddedUsers(folder)
        self.storages = EmbeddedStorages(folder)
        self.templates = EmbeddedTemplates(folder)
