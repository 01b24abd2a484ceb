"""A machine layout as SKUs and machines, in its newest and its legacy form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from paictl.config.models import per_document
from paictl.config.models.placeholders import is_placeholder
from paictl.config.reading.document import Document
from paictl.config.reading.nodes import MappingNode, ScalarNode
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.suggestions import nearest
from paictl.units import Quantity, parse_quantity

ROLES = ("pai-master", "pai-worker", "pai-storage")


@frozen
class LayoutSku:
    """A kind of machine; everything may be absent."""

    key: ScalarNode
    spec: MappingNode

    @property
    def name(self) -> str:
        """Name of the SKU."""
        return self.key.text

    @property
    def memory_at(self) -> ScalarNode | None:
        """The memory as written, whatever its type."""
        return self.spec.scalar("mem")

    @property
    def memory(self) -> Quantity | None:
        """The memory of such a machine; a bare number of the legacy form counts GiB."""
        at = self.memory_at
        if at is None:
            return None
        return parse_quantity(f"{at.text}Gi" if is_bare_number(at) else at.text)

    @property
    def vcores(self) -> int | None:
        """Virtual cores of such a machine."""
        return self.spec.mapping("cpu").integer("vcore")

    @property
    def device(self) -> MappingNode:
        """The devices, also under the key of the legacy form; empty for a machine without."""
        return self.spec.mapping("computing-device" if "computing-device" in self.spec else "gpu")

    @property
    def device_count(self) -> int | None:
        """Devices of such a machine: 0 if it has none, None if the file does not say."""
        if "computing-device" not in self.spec and "gpu" not in self.spec:
            return 0
        return self.device.integer("count")


@frozen
class MachineEntry:
    """An entry of the machine list; name and address are absent where nothing, or a placeholder, is filled in."""

    spec: MappingNode
    name: ScalarNode | None
    address: ScalarNode | None
    sku: ScalarNode | None

    @property
    def key(self) -> str:
        """The name for comparing, empty if there is none: DNS does not tell upper from lower case."""
        return self.name.text.strip().lower() if self.name else ""

    @property
    def place(self) -> ScalarNode | MappingNode:
        """Where to point for the machine as a whole."""
        return self.name or next((entry.key for entry in self.spec), self.spec)

    @property
    def words(self) -> str:
        """The machine for a message."""
        return text("machine {name!r}", name=self.name.text) if self.name else text("a machine")

    def has(self, role: str) -> ScalarNode | None:
        """The `"true"` that gives the machine a role (also one that lacks its quotes, which SHP102 reports)."""
        value = self.spec.scalar(role)
        return value if value is not None and (value.value is True or value.text.lower() == "true") else None

    def misspells(self, role: str) -> bool:
        """Whether a key of the machine is most likely meant as that role (SHP104 reports it)."""
        unknown = [entry.name.replace("_", "-") for entry in self.spec if entry.name not in ROLES]
        return any(nearest(name, ROLES) == role for name in unknown)


@frozen
class Layout:
    """A layout's SKUs by name, and its machines in order."""

    skus: dict[str, LayoutSku]
    machines: tuple[MachineEntry, ...]

    def with_role(self, role: str) -> Iterator[MachineEntry]:
        """The machines of a role."""
        return (machine for machine in self.machines if machine.has(role))

    def sku_of(self, machine: MachineEntry) -> LayoutSku | None:
        """The SKU of a machine, if it is defined."""
        return self.skus.get(machine.sku.text) if machine.sku else None


@per_document
def layout_of(document: Document) -> Layout:
    """The layout in a document of that kind."""
    top = document.top
    skus = {
        entry.name: LayoutSku(entry.key, entry.value)
        for entry in top.mapping("machine-sku")
        if isinstance(entry.value, MappingNode)
    }
    machines = (
        MachineEntry(spec, _given(spec, "hostname"), _given(spec, "hostip"), spec.scalar("machine-type"))
        for spec in top.sequence("machine-list").mappings()
    )
    return Layout(skus, tuple(machines))


def _given(spec: MappingNode, key: str) -> ScalarNode | None:
    scalar = spec.text(key)
    return scalar if scalar and scalar.text.strip() and not is_placeholder(scalar.text) else None


def is_bare_number(memory: ScalarNode) -> bool:
    """Whether memory is written as the legacy form has it: a number without unit."""
    return isinstance(memory.value, int) and not isinstance(memory.value, bool)


# --- the legacy form --------------------------------------------------------------------------------------------------


@frozen
class LegacyField:
    """A kind of field of the legacy form: where it stands, what to do about it, and whether v1.5 still accepts it."""

    name: str
    places: tuple[ScalarNode, ...]
    now: str
    accepted: bool = False


_Finder = Callable[[MappingNode], Iterator[ScalarNode]]


def _top_key(name: str, top: MappingNode) -> Iterator[ScalarNode]:
    key = top.key(name)
    if key is not None:
        yield key


def _sku_key(name: str, top: MappingNode) -> Iterator[ScalarNode]:
    for entry in top.mapping("machine-sku"):
        if isinstance(entry.value, MappingNode):
            yield from _top_key(name, entry.value)


def _machine_key(name: str, top: MappingNode) -> Iterator[ScalarNode]:
    for spec in top.sequence("machine-list").mappings():
        yield from _top_key(name, spec)


def _bare_memory(top: MappingNode) -> Iterator[ScalarNode]:
    for entry in top.mapping("machine-sku"):
        memory = entry.value.scalar("mem") if isinstance(entry.value, MappingNode) else None
        if memory is not None and is_bare_number(memory):
            yield memory


_KUBERNETES = "section kubernetes"
_ADDRESSES = {"api-servers-url", "dashboard-url"}
"""What OpenPAI v1.5 and later still take in the section kubernetes, both or none."""
_LEGACY: tuple[tuple[str, _Finder, str], ...] = (
    (_KUBERNETES, partial(_top_key, "kubernetes"), "remove it, the addresses follow from the master"),
    (
        "section default-machine-properties",
        partial(_top_key, "default-machine-properties"),
        "remove it, and set user and password in config.yaml",
    ),
    (
        "field gpu of a SKU",
        partial(_sku_key, "gpu"),
        "write computing-device with type (such as nvidia.com/gpu), model and count",
    ),
    ("memory without a unit", _bare_memory, "write it with its unit: {value}Gi"),
    ("field os of a SKU", partial(_sku_key, "os"), "remove it; the operating system is no longer read"),
    (
        "field dataFolder of a SKU",
        partial(_sku_key, "dataFolder"),
        "remove it, and set cluster.common.data-path in services-configuration.yaml",
    ),
    ("field nodename", partial(_machine_key, "nodename"), "remove it, the node is named by hostname"),
    (
        "field k8s-role",
        partial(_machine_key, "k8s-role"),
        'remove it, pai-master: "true" and pai-worker: "true" say which machine does what',
    ),
    ("field etcdid", partial(_machine_key, "etcdid"), "remove it, Kubespray names the members of etcd"),
    ("field zkid", partial(_machine_key, "zkid"), "remove it; ZooKeeper is no longer used"),
    ("field dashboard", partial(_machine_key, "dashboard"), "remove it, the dashboard runs on the master"),
    (
        "field docker-data",
        partial(_machine_key, "docker-data"),
        "remove it, and set docker_data_root in config.yaml, for all machines",
    ),
    ("field username", partial(_machine_key, "username"), "remove it, and set user in config.yaml, for all machines"),
    (
        "field password",
        partial(_machine_key, "password"),
        "remove it, and set password in config.yaml, for all machines",
    ),
    ("field sshport", partial(_machine_key, "sshport"), "remove it, and let SSH listen on port 22"),
    (
        "field keyfile-path",
        partial(_machine_key, "keyfile-path"),
        "remove it, and set ssh_key_file_path in config.yaml, for all machines",
    ),
)


@per_document
def legacy_fields(document: Document) -> tuple[LegacyField, ...]:
    """The kinds of field of the legacy form, as far as the file has them, in file order."""
    fields = []
    for name, find, now in _LEGACY:
        places = tuple(find(document.top))
        if places:
            accepted = name == _KUBERNETES and document.top.mapping("kubernetes").entries.keys() == _ADDRESSES
            fields.append(LegacyField(text(name), places, text(now, value=places[0].text), accepted))
    return tuple(sorted(fields, key=lambda field: field.places[0].start))


def is_legacy(document: Document) -> bool:
    """Whether a layout as a whole is of the legacy form, and has not just a field left over from it."""
    return len(refused_fields(document)) > 1


def refused_fields(document: Document) -> list[LegacyField]:
    """The legacy fields that OpenPAI v1.5 and later refuse."""
    return [field for field in legacy_fields(document) if not field.accepted]
