"""Accounts and tokens in a cluster: a Secret for each in `paictl-system`, whose `resourceVersion` is the lock.

No write of Kubernetes covers two objects, so two administrators who demote each other would both see one left.
Therefore an administrator about to leave office is noted first, in a Secret of its own, with the version of the account
that ends. Notes are written over the version that was read, and a noted administrator does not count for other clients.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
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
from paictl.cluster.kubernetes.connection import cluster_errors
from paictl.cluster.kubernetes.names import NAMESPACE
from paictl.cluster.values import ClusterError, ConflictError
from paictl.remote.kube.client import Json, KubeClient, KubeError
from paictl.remote.kube.objects import NOT_FOUND, create, delete, find, path_of, replace

_LABELS: Final = {
    "app.kubernetes.io/name": "users",
    "app.kubernetes.io/part-of": "paictl",
    "app.kubernetes.io/managed-by": "paictl",
}
_KIND: Final = "paictl.io/record"
"""Label: whether an object is an account or a token."""
_USER: Final = "paictl.io/user"
"""Label: whose it is, hashed, because a name may have what a label must not."""
_DATA: Final = "record"
_LEAVING: Final = "paictl-administrators-leaving"
"""The Secret of those who are about to leave office: name → version of the account that says so no longer."""
_TRIES: Final = 8
_PAUSE: Final = 0.05
"""Seconds before another look at notes that someone else has just made."""


class KubernetesUsers:
    """The accounts of one cluster."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def accounts(self) -> Sequence[Account]:
        """All accounts by name."""
        return sorted(map(_account, self._all(f"{_KIND}=account")), key=lambda account: account.name)

    def account(self, name: str) -> Account | None:
        """An account as it is now."""
        with cluster_errors():
            secret = find(self._client, _path(_account_name(name)))
        return None if secret is None else _account(secret)

    def put_account(self, account: Account) -> Account:
        """Make an account, or replace the version that it names."""
        body = _manifest("account", _account_name(account.name), account.name, account_data(account))
        with cluster_errors():
            if account.version:
                if not account.admin:
                    self._note_leaving(account.name, account.version)
                body["metadata"]["resourceVersion"] = account.version
                stored = replace(self._client, _path(_account_name(account.name)), body)
            else:
                stored = self._make(body)
        if stored is None:
            raise account_changed(account.name) if account.version else account_there(account.name)
        return _account(stored)

    def remove_account(self, name: str, version: str = "") -> None:
        """Remove an account, or that version of it, and then its tokens: without it they are worth nothing."""
        for _ in range(_TRIES):
            with cluster_errors():
                account = self.account(name)
                if account is None:
                    break
                if version and account.version != version:
                    raise account_changed(name)
                self._note_leaving(name, account.version)
                if delete(self._client, _path(_account_name(name)), version=account.version):
                    break
        else:
            raise account_changed(name)
        self.remove_tokens(token.digest for token in self.tokens(name))

    def _note_leaving(self, name: str, version: str) -> None:
        """Note that an account's state `version` is about to end. Raises `LastAdministratorError`."""
        for attempt in range(_TRIES):
            notes = find(self._client, _path(_LEAVING))
            noted: dict[str, str] = {} if notes is None else _read(notes)
            administrators = {account.name: account for account in self.accounts() if account.admin}
            if name not in administrators:
                return
            current = {
                who: instant
                for who, instant in noted.items()
                if who in administrators and administrators[who].version == instant
            }
            if not administrators.keys() - current.keys() - {name}:
                if not current.keys() - {name}:
                    raise LastAdministratorError(name)
                self._wait_or_withdraw([administrators[who] for who in current if who != name], last=attempt > 2)
                continue
            body = _manifest("leaving", _LEAVING, "", {**current, name: version})
            if notes is None:
                done = self._make(body)
            else:
                body["metadata"]["resourceVersion"] = notes["metadata"]["resourceVersion"]
                done = replace(self._client, _path(_LEAVING), body)
            if done is not None:
                return
        raise account_changed(name)

    def _wait_or_withdraw(self, departing: Iterable[Account], *, last: bool) -> None:
        """Give those who are noted time to leave; who has not by then (a client that died) stays in office.

        The account is written again as it is, so that a write over the noted version can no longer succeed.
        """
        time.sleep(_PAUSE)
        if not last:
            return
        for account in departing:
            body = _manifest("account", _account_name(account.name), account.name, account_data(account))
            body["metadata"] |= {
                "resourceVersion": account.version,
                "annotations": {"paictl.io/stays": account.version},  # a write that changes nothing keeps the version
            }
            replace(self._client, _path(_account_name(account.name)), body)

    def tokens(self, user: str) -> Sequence[Token]:
        """The tokens of a user, oldest first."""
        tokens = map(_token, self._all(f"{_KIND}=token,{_USER}={_hashed(user)}"))
        return sorted(tokens, key=lambda token: token.created)

    def token(self, digest: str) -> Token | None:
        """A token by its hash."""
        with cluster_errors():
            secret = find(self._client, _path(_token_name(digest)))
        return None if secret is None else _token(secret)

    def add_token(self, token: Token) -> None:
        """Keep a token."""
        with cluster_errors():
            if self._make(_manifest("token", _token_name(token.digest), token.user, token_data(token))) is None:
                raise ConflictError("this token already exists", hint="create another one")

    def remove_tokens(self, digests: Iterable[str]) -> int:
        """Take tokens away; how many there were."""
        with cluster_errors():
            return sum(delete(self._client, _path(_token_name(digest))) for digest in digests)

    # --- objects

    def _all(self, labels: str) -> list[Json]:
        with cluster_errors():
            pages = self._client.list(path_of(NAMESPACE, "secrets"), {"labelSelector": labels})
            return [body for _, page in pages for body in page]

    def _make(self, body: Json) -> Json | None:
        path = path_of(NAMESPACE, "secrets")
        try:
            return create(self._client, path, body)
        except KubeError as error:
            if error.status != NOT_FOUND:
                raise
        shared = {name: value for name, value in _LABELS.items() if not name.endswith("/name")}
        about = {"name": NAMESPACE, "labels": shared}
        create(self._client, "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": about})
        return create(self._client, path, body)


def _path(name: str) -> str:
    return path_of(NAMESPACE, "secrets", name)


def _hashed(word: str) -> str:
    return hashlib.sha256(word.encode()).hexdigest()[:40]


def _account_name(user: str) -> str:
    return f"paictl-user-{_hashed(user)}"


def _token_name(digest: str) -> str:
    return f"paictl-token-{_hashed(digest)}"


def _manifest(kind: str, name: str, user: str, record: Mapping[str, Any]) -> Json:
    written = base64.b64encode(json.dumps(record, ensure_ascii=False).encode()).decode()
    labels = {**_LABELS, _KIND: kind, _USER: _hashed(user)}
    about: Json = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "paictl.io/users",
        "metadata": about,
        "data": {_DATA: written},
    }


def _read(secret: Json) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(base64.b64decode(secret["data"][_DATA]))
    return record


def _account(secret: Json) -> Account:
    try:
        return account_from(_read(secret), str(secret["metadata"]["resourceVersion"]))
    except (KeyError, TypeError, ValueError):
        raise _damaged(secret) from None


def _token(secret: Json) -> Token:
    try:
        return token_from(_read(secret))
    except (KeyError, TypeError, ValueError):
        raise _damaged(secret) from None


def _damaged(secret: Json) -> ClusterError:
    return ClusterError(
        "cannot be read: it was edited by hand",
        where=f"secret {NAMESPACE}/{secret.get('metadata', {}).get('name')}",
        hint="restore it from an etcd backup, or delete it and add the user again: paictl user add",
    )
