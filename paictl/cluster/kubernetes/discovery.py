"""What a running cluster says about its devices, its topology, and what other schedulers were told about tenants.

Read only, and by what is there: a kind of object that the API server does not have, or does not show, is no error.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Final

from paictl.cluster.devices.directory import DRIVERS
from paictl.cluster.devices.slices import OfferedDevice, Slice, complete, read_slice
from paictl.cluster.kubernetes.connection import client_of
from paictl.cluster.registry import Pinned
from paictl.config.making.discovered import (
    QUOTA,
    Ask,
    DiscoveredCluster,
    DiscoveredNode,
    DiscoveredShare,
    DiscoveredTopology,
    titled,
)
from paictl.i18n import joined, listed, text
from paictl.remote.kube.client import Json, KubeClient, KubeError
from paictl.units import exact_quantity
from paictl.workload.sku import DEVICES

MODELS: Final = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "habana.ai/hpu.product",
    "cloud.google.com/gke-accelerator",
)
"""Labels of nodes that name the model of their devices, by who sets them: GPU feature discovery and its like."""
_SHARED: Final = "nvidia.com/gpu.replicas"
_STRATEGY: Final = "nvidia.com/mig.strategy"
_DIVIDED: Final = re.compile(r"(.+)-MIG-(([1-7])g\.([1-9][0-9]*)gb)([.-][a-z]+(?:\.[a-z]+)?)?")
"""A model as GPU feature discovery names it where devices are MIG instances: of what GPU, their profile, its compute
slices and GB, and what else it has (with a dot for the plus sign of ``+me``, as labels have none)."""
_KUEUE: Final = "kueue.x-k8s.io"
_KAI: Final = "kai.scheduler"
_RUNAI: Final = "scheduling.run.ai"
_VOLCANO: Final = "scheduling.volcano.sh"
_LIMIT: Final = "requests."


def observe(client: KubeClient) -> DiscoveredCluster:
    """Read nodes, slices, topologies and quotas. Raises `KubeError` if nodes may not be listed, `NoAnswerError`."""
    return _Reader(client).read()


def observe_pinned(pinned: Pinned) -> DiscoveredCluster:
    """The same of a cluster that was added; raises `ClusterError` if its context leads elsewhere today."""
    return observe(client_of(pinned))


class _Reader:
    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self.remarks: list[str] = []

    def read(self) -> DiscoveredCluster:
        slices: dict[str, list[Slice]] = defaultdict(list)
        for device_slice in filter(None, map(read_slice, self._all("resource.k8s.io", "resourceslices"))):
            if device_slice.driver in DRIVERS:
                slices[device_slice.node].append(device_slice)
        bodies = [body for _, page in self.client.list("/api/v1/nodes") for body in page]
        nodes = tuple(filter(None, (self._node(body, slices[body["metadata"]["name"]]) for body in bodies)))
        return DiscoveredCluster(nodes, tuple(self._topologies()), tuple(self._shares()), tuple(self.remarks))

    def _all(self, group: str, plural: str) -> list[Json]:
        """All objects of a kind, in the version that the API server prefers; none if it has no such kind."""
        try:
            path = f"/apis/{self.client.get(f'/apis/{group}')['preferredVersion']['groupVersion']}/{plural}"
            return [body for _, page in self.client.list(path) for body in page]
        except KubeError as error:
            if error.status == 403:
                self.remarks.append(
                    text(
                        "{kind} may not be listed with this kubeconfig: they do not count here",
                        kind=f"{plural}.{group}",
                    )
                )
            elif error.status != 404:
                raise
            return []

    # --- nodes

    def _node(self, body: Json, slices: list[Slice]) -> DiscoveredNode | None:
        about, status = body["metadata"], body.get("status") or {}
        labels = {str(key): str(value) for key, value in (about.get("labels") or {}).items()}
        capacity, name = status.get("capacity") or {}, str(about["name"])
        counted = {kind: _count(capacity[kind]) for kind in DEVICES if kind in capacity}
        resource = max(counted, key=lambda kind: counted[kind], default="")
        devices = counted.get(resource, 0)
        offered, faults = complete(slices)
        self.remarks += [text("node {name}: {fault}", name=name, fault=fault) for fault in faults]
        if not devices and offered:
            resource, devices = f"{offered[0].driver.partition('.')[2]}/gpu", len(offered)
        self._remark_parts(name, capacity, labels)
        if not devices:
            return None
        healthy = _count((status.get("allocatable") or {}).get(resource, devices))
        if healthy < devices:
            self.remarks.append(
                text(
                    "node {name} has {devices} devices, of which {count} are not healthy now",
                    name=name,
                    devices=devices,
                    count=devices - healthy,
                )
            )
        allocatable = status.get("allocatable") or {}
        model = next((labels[label] for label in MODELS if labels.get(label)), "") or _product(offered)
        most, profile = _mig(model) if labels.get(_STRATEGY) == "single" else (0, "")
        instances = next((number for number in range(most, 0, -1) if devices % number == 0), 0)
        if instances < most:
            self.remarks.append(
                text(
                    "node {name} has {devices} MIG instances {profile}, and a GPU may have up to {most}: labels "
                    "cannot tell how its GPUs are divided",
                    name=name,
                    devices=devices,
                    profile=profile,
                    most=most,
                )
            )
        memory = int(_amount(allocatable.get("memory"))) >> 20
        cpus = Decimal(int(1000 * _amount(allocatable.get("cpu")))) / 1000
        near, guessed = instances or _per_root(offered), instances < most
        return DiscoveredNode(name, resource, devices, cpus, memory, model, labels, near, instances, profile, guessed)

    def _remark_parts(self, name: str, capacity: Mapping[str, object], labels: Mapping[str, str]) -> None:
        """Devices that are cut or shared: a cell is a whole one."""
        parts = [
            resource for resource in capacity if resource.startswith("nvidia.com/mig-") and _count(capacity[resource])
        ]
        if parts:
            self.remarks.append(
                text(
                    "node {name} has devices divided by MIG ({parts}): they are not cells, unless the device plugin "
                    "runs with mig-strategy: single",
                    name=name,
                    parts=", ".join(sorted(parts)),
                )
            )
        if _count(labels.get(_SHARED, 1)) > 1:
            self.remarks.append(
                text(
                    "node {name} shares each device between {count} pods: it does not count devices",
                    name=name,
                    count=labels[_SHARED],
                )
            )

    # --- topologies

    def _topologies(self) -> Iterator[DiscoveredTopology]:
        for group in (_KUEUE, _KAI):
            for topology in self._all(group, "topologies"):
                labels = (str(level.get("nodeLabel", "")) for level in topology["spec"].get("levels") or ())
                levels = tuple(label for label in labels if label and label != "kubernetes.io/hostname")
                if levels:
                    yield DiscoveredTopology(f"Topology of {group}", str(topology["metadata"]["name"]), levels)

    # --- tenants

    def _shares(self) -> list[DiscoveredShare]:
        """The quotas of the first of these that has any; the others are remarked."""
        kinds = (self._kueue, self._kai, self._volcano, self._quotas)
        shares_by_kind = [sorted(kind(), key=lambda share: share.name) for kind in kinds]
        chosen = next(filter(None, shares_by_kind), [])
        for shares in shares_by_kind:
            if shares and shares is not chosen:
                self.remarks.append(
                    text(
                        "{shares}: tenants come from {chosen}s",
                        shares=titled(shares[0].kind, listed([share.name for share in shares], 3)),
                        chosen=chosen[0].kind,
                    )
                )
        return chosen

    def _kueue(self) -> Iterator[DiscoveredShare]:
        queues = self._all(_KUEUE, "clusterqueues")
        if not queues:
            return
        flavors = {flavor["metadata"]["name"]: flavor["spec"] for flavor in self._all(_KUEUE, "resourceflavors")}
        spaces: dict[str, list[str]] = defaultdict(list)
        for local_queue in self._all(_KUEUE, "localqueues"):
            spaces[str(local_queue["spec"].get("clusterQueue"))].append(str(local_queue["metadata"]["namespace"]))
        for queue in queues:
            name, spec = str(queue["metadata"]["name"]), queue["spec"]
            given = [
                (flavor["name"], resource)
                for group in spec.get("resourceGroups") or ()
                for flavor in group.get("flavors") or ()
                for resource in flavor.get("resources") or ()
                if resource.get("name") in DEVICES
            ]
            asks = [
                Ask(
                    _count(resource.get("nominalQuota")),
                    str(resource["name"]),
                    {str(k): str(v) for k, v in (flavors.get(flavor, {}).get("nodeLabels") or {}).items()},
                )
                for flavor, resource in given
            ]
            lost = [key for key in ("borrowingLimit", "lendingLimit") if any(key in resource for _, resource in given)]
            lost += [key for key in ("cohort", "cohortName", "fairSharing", "preemption") if spec.get(key)]
            if share := self._share("ClusterQueue", name, asks, spaces[name], lost):
                yield share

    def _kai(self) -> Iterator[DiscoveredShare]:
        queues = self._all(_RUNAI, "queues")
        parents = {str(queue["spec"].get("parentQueue")) for queue in queues}
        for queue in queues:
            name, gpu = str(queue["metadata"]["name"]), (queue["spec"].get("resources") or {}).get("gpu") or {}
            quota = float(gpu.get("quota") or 0)
            if name in parents:
                continue
            if quota < 0 or quota != int(quota):
                self.remarks.append(
                    text(
                        "Queue {name} has a quota of {quota} devices, which is not a whole number of cells",
                        name=name,
                        quota=f"{quota:g}",
                    )
                )
            lost = [key for key in ("limit", "overQuotaWeight") if key in gpu]
            if share := self._share("Queue", name, [Ask(max(0, int(quota)))], (), lost):
                yield share

    def _volcano(self) -> Iterator[DiscoveredShare]:
        for queue in self._all(_VOLCANO, "queues"):
            name, spec = str(queue["metadata"]["name"]), queue["spec"]
            amounts: dict[str, Json] = {
                "guarantee": (spec.get("guarantee") or {}).get("resource") or {},
                "deserved": spec.get("deserved") or {},
                "capability": spec.get("capability") or {},
            }
            key = next((key for key, given in amounts.items() if given), "guarantee")
            given = amounts[key]
            asks = [Ask(_count(given[resource]), resource) for resource in DEVICES if resource in given]
            lost = [other for other in ("deserved", "capability", "weight") if other != key and spec.get(other)]
            if name != "root" and (share := self._share("Queue", name, asks, (), lost)):
                yield share

    def _quotas(self) -> Iterator[DiscoveredShare]:
        limits: dict[str, Counter[str]] = defaultdict(Counter)
        for _, page in self.client.list("/api/v1/resourcequotas"):
            for quota in page:
                for key, value in (quota["spec"].get("hard") or {}).items():
                    if key.removeprefix(_LIMIT) in DEVICES and key.startswith(_LIMIT):
                        limits[str(quota["metadata"]["namespace"])][key.removeprefix(_LIMIT)] += _count(value)
        for space, amounts in limits.items():
            asks = [Ask(number, resource) for resource, number in sorted(amounts.items())]
            if share := self._share(QUOTA, space, asks, (space,), [text("the limit itself")]):
                yield share

    def _share(
        self, kind: str, name: str, asks: Iterable[Ask], spaces: Iterable[str], lost: Iterable[str]
    ) -> DiscoveredShare | None:
        """A quota of devices; None if it has none. What cells cannot express is remarked."""
        asked = tuple(ask for ask in asks if ask.devices > 0)
        if not asked:
            return None
        share = DiscoveredShare(kind, name, asked, tuple(sorted(set(spaces))))
        if parts := tuple(lost):
            self.remarks.append(joined(": ", (share.title, joined(", ", parts))))
        return share


def _amount(value: object) -> Fraction:
    """A quantity; 0 if it is none."""
    try:
        return exact_quantity(str(value))
    except ValueError:
        return Fraction(0)


def _count(value: object) -> int:
    """A quantity of whole things; 0 if it is none."""
    return max(0, int(_amount(value)))


def _mig(model: str) -> tuple[int, str]:
    """How many MIG instances fit on a GPU, and their profile, by the name of the model; 0 if it names none.

    Labels count the instances of the node, not those of a GPU. A GPU is taken to be divided as far as it goes: by its
    compute slices (four of an A30, seven of others) and, where the name says how many GB it has, by its memory. Only
    one instance of a GPU can have the media extensions (``+me``, ``+me.all``).
    """
    match = _DIVIDED.fullmatch(model)
    if match is None:
        return 0, ""
    whole, profile, slices, memory, extra = match.groups(default="")
    profile += extra.replace(".", "+", 1) if extra.startswith(".") else extra
    if extra.startswith(".me"):
        return 1, profile
    most = (4 if "A30" in whole.split("-") else 7) // int(slices)
    size = re.search(r"([0-9]+)GB", whole)
    return max(1, min(most, int(size[1]) // int(memory)) if size else most), profile


def _product(devices: Iterable[OfferedDevice]) -> str:
    names = {device.product for device in devices}
    return names.pop() if len(names) == 1 else ""


def _per_root(devices: Iterable[OfferedDevice]) -> int:
    """Devices under each PCIe root, if they are equally many and neighbours by bus address; else 0."""
    roots = [device.root for device in sorted(devices, key=lambda device: device.bus)]
    if not roots or not all(roots):
        return 0
    size = roots.count(roots[0])
    runs = [set(roots[at : at + size]) for at in range(0, len(roots), size)]
    equal = len(roots) % size == 0 and all(len(run) == 1 for run in runs) and len({*roots}) == len(runs)
    return size if equal else 0
