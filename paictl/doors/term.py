"""One term of leadership: a core of its own, informers that fill it, budgets that it watches, a binder and a
reconciler.

Everything is rebuilt when a term begins, from current lists, which include the last bindings of another leader. Without
an election there is one term, for as long as the process lives or its configuration stays the same.
"""

from __future__ import annotations

import gc
import json
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paictl.cells.spec import ClusterSpec
from paictl.cluster.devices.pod_claims import ClaimOptions, PodClaims
from paictl.cluster.doors import server_of
from paictl.cluster.maintenance import NAME as WINDOWS
from paictl.cluster.pods.nodes import node_status
from paictl.cluster.pods.podgroups import read_group
from paictl.cluster.usagebooks import UsageStore
from paictl.doors import claims, views
from paictl.doors.accounts import Accountant
from paictl.doors.binder import Binder
from paictl.doors.claims import following
from paictl.doors.core import DoorCore, DoorOptions, NotServingError
from paictl.doors.pod_events import PodEvent
from paictl.doors.reconciler import Reconciler
from paictl.remote.kube.client import Json, KubeClient
from paictl.remote.kube.informer import Informer, InformerTimes, key_of
from paictl.scheduler import snapshot

if TYPE_CHECKING:
    from paictl.workload.budgets import Used
    from paictl.workload.lentorder import RecentUse


PERIOD: Final = 5.0
"""Seconds between two polls."""
BEGIN: Final = 0.5
"""Seconds between polls until the accounts are read."""


def take_recent(core: DoorCore, used: RecentUse) -> None:
    """Update the recent use without a guarantee; takes the core's lock."""
    with core.guarded():
        core.allowances.recent = used


class BudgetWatch:
    """Polls what was used; `renew` is called with it and must take the core's lock itself."""

    def __init__(self, used: Callable[[], Used | None], renew: Callable[[Used], None]) -> None:
        self._used = used
        self._renew = renew
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="budgets", daemon=True)

    def start(self) -> None:
        """Start polling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop polling."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def look(self) -> bool:
        """Poll once; whether the use is known."""
        if (used := self._used()) is None:
            return False
        self._renew(used)
        return True

    def _run(self) -> None:
        known = False
        while not self._stop.wait(PERIOD if known else BEGIN):
            with suppress(NotServingError):  # a broken core has said so already
                known = self.look()


PODS: Final = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
"""A pod that has ended leaves the selection, and so is reported as gone."""


class LeaderTerm:
    """A term from `start` to `stop`. A door that carries out decisions in another way overrides its parts' types."""

    core_type: type[DoorCore] = DoorCore
    binder_type: type[Binder] = Binder
    reconciler_type: type[Reconciler] = Reconciler
    binds = True
    """Whether it binds pods itself, and therefore reserves their claims for them."""
    needs_namespaces = False
    """Whether namespaces are followed even if no grants are required."""

    def __init__(
        self,
        client: KubeClient,
        spec: ClusterSpec,
        options: DoorOptions,
        record: Callable[[PodEvent], None],
        *,
        remaining: Callable[[], float],
        delete_after: float | None = None,
        times: InformerTimes | None = None,
        accounts: str = "",
        maintenance: str = "",
    ) -> None:
        self.client = client
        self.times = times
        self.core = self.core_type(spec, options, record)
        self.binder = self.binder_type(client, self.core, remaining=remaining)
        self.reconciler = self.reconciler_type(client, self.core, remaining=remaining, delete_after=delete_after)
        self.accounts = (
            Accountant(client, self.core, UsageStore(client, accounts), remaining=remaining) if accounts else None
        )
        self.watches = self._budget_watches(options)
        self.nodes = self._follow("/api/v1/nodes", self.node_seen, lambda key, _uid: self.core.node_gone(key))
        self.pods = self._follow("/api/v1/pods", self.pod_seen, lambda _key, uid: self.pod_left(uid), PODS)
        self.namespaces = self._follow_namespaces() if options.require_grants or self.needs_namespaces else None
        self.pod_groups = self._follow_pod_groups(options.pod_groups) if options.pod_groups else None
        self.windows = self._follow_windows(maintenance) if maintenance else None
        self.claim_informers = self._follow_claims(options.claims) if options.claims is not None else ()
        self.remaining = remaining
        self._opening = threading.Lock()
        self.ended = False

    def _budget_watches(self, options: DoorOptions) -> list[BudgetWatch]:
        """The polls of what was used: in the month for budgets, recently for the order of opportunistic gangs."""
        watches: list[BudgetWatch] = []
        if self.accounts is not None and options.sharing.budgets:
            watches.append(BudgetWatch(self.accounts.used_in_month, self.core.month_used))
        if self.accounts is not None and options.sharing.order is not None:
            watches.append(BudgetWatch(self.accounts.used_lately, partial(take_recent, self.core)))
        return watches

    def _follow(
        self,
        path: str,
        change: Callable[[Json], None],
        remove: Callable[[str, str], None],
        query: Mapping[str, str] | None = None,
    ) -> Informer:
        return following(self.client, path, change, remove, self.synced, query=query, times=self.times)

    def _follow_namespaces(self) -> Informer:
        core = self.core
        return self._follow("/api/v1/namespaces", core.namespace_changed, lambda key, _uid: core.namespace_gone(key))

    def _follow_pod_groups(self, api: str) -> Informer:
        core = self.core
        return self._follow(
            f"{api}/podgroups",
            lambda group: core.pod_group_changed(read_group(group)),
            lambda key, _uid: core.pod_group_gone(key),
        )

    def _follow_windows(self, namespace: str) -> Informer:
        return self._follow(
            f"/api/v1/namespaces/{namespace}/configmaps",
            self._windows_seen,
            lambda _key, _uid: self._windows_seen(None),
            {"fieldSelector": f"metadata.name={WINDOWS}"},
        )

    def _follow_claims(self, options: ClaimOptions) -> tuple[Informer, ...]:
        """Keep claims and devices up to date in the core."""
        promised = claims.promised_indexes(self.core.book.engine.state)
        self.core.claims = PodClaims(self.client, options, promised, self.core.wall, reserves=self.binds)
        self.core.claims.directory.changed = self._devices_changed
        return claims.informers(self.client, self.core, self.core.claims, self.synced, self.times)

    def start(self) -> None:
        """List nodes, pods and whatever else is followed; answer as soon as everything is known."""
        for informer in self._informers():
            informer.start()
        self.reconciler.start()
        if self.accounts is not None:
            self.accounts.start()
        for watch in self.watches:
            watch.start()

    def _informers(self) -> tuple[Informer, ...]:
        others = filter(None, (self.namespaces, self.pod_groups, self.windows))
        return (*others, *self.claim_informers, self.nodes, self.pods)

    def _devices_changed(self, node: str) -> None:
        with suppress(NotServingError):  # a broken core has said so already
            self.core.devices_changed(node)

    def stop(self) -> None:
        """Stop answering."""
        self.ended = True
        for watch in self.watches:
            watch.stop()
        if self.accounts is not None:
            self.accounts.stop()
        for informer in self._informers():
            informer.stop()
        self.reconciler.stop()
        self.binder.stop()

    def synced(self) -> None:
        """A list is complete; once all are, the core opens."""
        with self._opening:
            if self.core.is_open or self.core.windows.problem:  # better no answer than a place in maintenance
                return
            if all(informer.ready.is_set() for informer in self._informers()):
                self.core.open()
                gc.freeze()  # these objects live long: no answer has to wait while the collector walks them

    def _windows_seen(self, config_map: Json | None) -> None:
        """The ConfigMap of the maintenance windows has changed; None: it is gone."""
        self.core.windows_changed(config_map)
        if self.windows is not None and self.windows.ready.is_set():
            self.synced()

    def node_seen(self, node: Json) -> None:
        """A node was added or changed."""
        if self.core.claims is not None:
            self.core.claims.directory.node_changed(node)
        self.core.node_changed(node_status(node, self.core.options.rules.devices))

    def pod_seen(self, pod: Json) -> None:
        """A pod was added or changed."""
        try:
            self.core.pod_changed(pod)
        except NotServingError:
            raise
        except Exception as error:  # a bug of ours, but the pod's devices must not be given away
            self._shun(pod, error)
            raise
        if self.accounts is not None:
            self.accounts.pod_changed(pod)

    def _shun(self, pod: Json, error: Exception) -> None:
        """Keep new pods off the node of a pod that could not be entered, until it is gone."""
        metadata, node = pod["metadata"], str((pod.get("spec") or {}).get("nodeName") or "")
        if node:
            why = f"pod {key_of(metadata)} on node {node} could not be taken in ({type(error).__name__}: {error})"
            with self.core.guarded():
                self.core.health.shun(str(metadata.get("uid")), node, why)
                if self.core.is_open:
                    self.core.heal()

    def pod_left(self, uid: str) -> None:
        """A pod was deleted, or has ended."""
        self.core.pod_gone(uid)
        if self.accounts is not None:
            self.accounts.pod_gone(uid)

    @property
    def problem(self) -> str:
        """Why questions cannot be answered; empty if they can."""
        if self.core.broken:
            return self.core.broken
        if self.ended or self.remaining() <= 0:
            return "this process does not lead"
        if not self.core.is_open:
            problem = next(
                filter(None, (*(informer.problem for informer in self._informers()), self.core.windows.problem)), ""
            )
            return f"the scheduler is starting: {problem or 'it does not know all pods yet'}"
        return ""

    def dump(self, folder: Path | None = None) -> Path:
        """Write the state of an inconsistent engine to a file for investigation; returns its path."""
        data: Json = {
            "error": self.core.broken,
            "engine": snapshot.dump(self.core.book.engine),
            "decisions": views.decisions(self.core, server_of("extender" if self.binds else "gates")),
        }
        text = json.dumps(data, default=str)
        with tempfile.NamedTemporaryFile(
            "w", dir=folder, prefix="paictl-extender-", suffix=".json", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
        return Path(file.name)
