"""Informers that keep a core up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from paictl.doors.core import NotServingError
from paictl.remote.kube.client import Json, KubeClient
from paictl.remote.kube.informer import Informer, InformerTimes


def following(
    client: KubeClient, path: str, change: Callable[[Json], None], remove: Callable[[str, str], None],
    synced: Callable[[], None], *, query: Mapping[str, str] | None = None, times: InformerTimes | None = None,
) -> Informer:  # fmt: skip
    """An informer that passes on changed objects and removed ones (key, uid), and calls `synced` after each list."""
    listener = _Listener(change, remove, synced)
    informer = Informer(client, path, listener, query=query, times=times)
    listener.informer = informer
    return informer


@dataclass(slots=True)
class _Listener:
    """Passes news on to a core; a broken core has reported that already, and its errors are dropped."""

    change: Callable[[Json], None]
    remove: Callable[[str, str], None]
    on_list: Callable[[], None]
    informer: Informer | None = None

    def changed(self, thing: Json) -> None:
        with suppress(NotServingError):
            self.change(thing)

    def gone(self, key: str, uid: str) -> None:
        with suppress(NotServingError):
            self.remove(key, uid)

    def synced(self) -> None:
        assert self.informer is not None  # noqa: S101 - it calls this
        self.informer.ready.set()
        with suppress(NotServingError):
            self.on_list()
