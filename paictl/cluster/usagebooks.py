"""The accounts of device time in a cluster: an object `UsageBook` for each day, written by who schedules."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote

from paictl.cluster.values import ClusterError, ConflictError, UnsupportedError
from paictl.i18n import text
from paictl.remote.kube.client import Json, KubeClient, KubeError
from paictl.remote.kube.objects import NOT_FOUND, create, find, replace
from paictl.workload.usage import UsageKind
from paictl.workload.usagebook import Record, UsageBook, without_jobs
from paictl.workload.usagereport import HOUR

_API: Final = "paictl.io/v1alpha1"
_OURS: Final = {f"app.kubernetes.io/{key}": "paictl" for key in ("part-of", "managed-by")}
_MONTH: Final = "paictl.io/month"
"""Label: the month of a book, as ``2026-11``."""
_BACK: Final = 31
"""Days after which accounts begin anew if nothing was written."""
_MOST: Final = 900_000
"""Characters of a record; etcd takes objects of 1.5 MiB."""


class UsageStore:
    """Reads and writes books of days. One process writes; another that has written meanwhile is not overwritten."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._path = f"/apis/{_API}/namespaces/{quote(namespace, safe='')}/usagebooks"
        self._namespace = namespace
        self._versions: dict[str, str] = {}
        """The resourceVersion of each book that was read or written here."""

    def newest(self, today: datetime) -> UsageBook | None:
        """The book that was written last, if that is no longer ago than a month; else None.

        Raises `ClusterError` for one that cannot be read.
        """
        for back in range(_BACK):
            body = find(self._client, f"{self._path}/{_name_of(today - timedelta(days=back))}")
            if body is not None:
                return self._read(body)
        return None

    def of_month(self, month: datetime) -> list[UsageBook]:
        """The books of a month, in order.

        Raises `UnsupportedError` if the cluster has no books at all, `ClusterError` for one that cannot be read.
        """
        query = {"labelSelector": f"{_MONTH}={month:%Y-%m}"}
        try:
            bodies = [body for _, page in self._client.list(self._path, query) for body in page]
        except KubeError as error:
            raise _without_books() if error.status == NOT_FOUND else error from None
        return [self._read(body) for body in sorted(bodies, key=lambda body: str(body["metadata"]["name"]))]

    def of_months(self, start: datetime, end: datetime) -> list[UsageBook]:
        """The books of all months from the one of `start` to `end`; raises as `of_month` does."""
        books: list[UsageBook] = []
        while start < end:
            books += self.of_month(start)
            start = (start.replace(day=1) + timedelta(days=32)).replace(day=1)
        return books

    def _read(self, body: Json) -> UsageBook:
        about = body["metadata"]
        self._versions[about["name"]] = about["resourceVersion"]
        try:
            return UsageBook.load(json.loads(gzip.decompress(base64.b64decode(body["spec"]["data"]))))
        except (KeyError, TypeError, ValueError, EOFError, OSError, zlib.error) as error:
            raise ClusterError(
                text("the accounts of this day are corrupt: {error}", error=str(error)),
                where=f"usagebook {self._namespace}/{about['name']}",
                hint="delete it to count the day from now on; its contents are lost",
            ) from None

    def put(self, record: Record) -> None:
        """Write the book of a day over what was read or written here.

        Raises `ConflictError` if others have written meanwhile, `UnsupportedError` if the cluster has no such objects.
        """
        day = datetime.fromtimestamp(record["day"] / 1000, UTC)
        name = _name_of(day)
        body: Json = {
            "apiVersion": _API,
            "kind": "UsageBook",
            "metadata": {"name": name, "namespace": self._namespace, "labels": {**_OURS, _MONTH: f"{day:%Y-%m}"}},
            "spec": _spec(record, f"{day:%Y-%m-%d}"),
        }
        if name in self._versions:
            body["metadata"]["resourceVersion"] = self._versions[name]
            done = replace(self._client, f"{self._path}/{name}", body)
        else:
            try:
                done = create(self._client, self._path, body)
            except KubeError as error:
                raise _without_books() if error.status == NOT_FOUND else error from None
        if done is None:
            raise ConflictError(
                text("another process has written the accounts of {day}", day=f"{day:%Y-%m-%d}"),
                where=f"usagebook {self._namespace}/{name}",
            )
        self._versions[name] = done["metadata"]["resourceVersion"]


def _without_books() -> UnsupportedError:
    return UnsupportedError(
        "this cluster keeps no accounts",
        hint="the service hivedscheduler keeps them, unless it has `accounts: false` (docs/usage.md)",
    )


def _spec(record: Record, day: str) -> Json:
    data = _packed(record)
    if len(data) > _MOST:
        data = _packed(without_jobs(record))
    used = sum(
        amount.amount
        for amount in UsageBook.load(record).amounts()
        if amount.kind in (UsageKind.GUARANTEED, UsageKind.OPPORTUNISTIC)
    )
    until = datetime.fromtimestamp(record["until"] / 1000, UTC)
    return {"day": day, "until": f"{until:%Y-%m-%dT%H:%M:%SZ}", "deviceHours": f"{used / HOUR:.2f}", "data": data}


def _packed(record: Record) -> str:
    return base64.b64encode(gzip.compress(json.dumps(record, separators=(",", ":")).encode(), mtime=0)).decode()


def _name_of(day: datetime) -> str:
    return f"day-{day:%Y-%m-%d}"
