"""What a job (OpenPAI protocol v2) says."""

from __future__ import annotations

import re
from collections.abc import Iterator

from paictl.config.models import per_document
from paictl.config.reading.document import Document
from paictl.config.reading.nodes import Entry, MappingNode, ScalarNode
from paictl.frozen import frozen

REFERENCES = {"dockerImage": "dockerimage", "data": "data", "output": "output", "script": "script"}
"""Keys of a task role that name a prerequisite, and the type that it must have."""

OPPORTUNISTIC = "oppo"
RESOURCES = ("cpu", "memoryMB", "gpu")


@frozen
class Prerequisite:
    """Something that task roles refer to by its name; `type` is empty where it is not said."""

    name: ScalarNode
    type: str
    node: MappingNode

    @property
    def known(self) -> bool:
        """Whether the type is one of the protocol's; the schema reports the others."""
        return self.type in REFERENCES.values()


@frozen
class JobRole:
    """A task role; `wishes` is what `extras.hivedScheduler` says about it."""

    key: ScalarNode
    node: MappingNode
    wishes: MappingNode

    @property
    def name(self) -> str:
        """Its name in the file."""
        return self.key.text

    @property
    def instances(self) -> int:
        """Number of its tasks; 1 where it is not said, or wrongly."""
        return max(self.node.integer("instances") or 1, 1)

    @property
    def resources(self) -> MappingNode:
        """What one task needs."""
        return self.node.mapping("resourcePerInstance")

    @property
    def group(self) -> ScalarNode | None:
        """The affinity group that it belongs to."""
        return self.wishes.text("affinityGroupName")

    @property
    def sku(self) -> ScalarNode | None:
        """The device type that it wants."""
        return self.wishes.text("skuType")

    @property
    def pin(self) -> ScalarNode | None:
        """The pinned cell that it wants."""
        return self.wishes.text("pinnedCellId")


@frozen
class RoleCommand:
    """A command of a role: its own, or one that a deployment puts around them."""

    role: str
    text: ScalarNode


@frozen
class JobSpec:
    """A job; `named` holds its prerequisites by name, of which several types may share one."""

    top: MappingNode
    prerequisites: tuple[Prerequisite, ...]
    named: dict[str, list[Prerequisite]]
    roles: dict[str, JobRole]
    deployments: tuple[tuple[ScalarNode, MappingNode], ...]

    @property
    def hived(self) -> MappingNode:
        """What HiveD is told."""
        return self.top.at("extras", "hivedScheduler")

    @property
    def gang(self) -> bool:
        """Whether all tasks start together or none does."""
        gang = self.top.mapping("extras").scalar("gangAllocation")
        return gang is None or gang.value is not False

    @property
    def opportunistic(self) -> bool:
        """Whether it runs outside the quota of its VC."""
        priority = self.hived.text("jobPriorityClass")
        return priority is not None and priority.value == OPPORTUNISTIC

    @property
    def virtual_cluster(self) -> ScalarNode | None:
        """Where the VC is named; None means the VC `default`."""
        return self.top.mapping("defaults").text("virtualCluster")

    def prerequisite(self, kind: str, name: str) -> Prerequisite | None:
        """The prerequisite of a type and name."""
        return next((prerequisite for prerequisite in self.named.get(name, ()) if prerequisite.type == kind), None)

    def commands(self) -> Iterator[RoleCommand]:
        """All commands in the file, those of deployments after those of the roles."""
        yield from self.role_commands()
        for _, deployment in self.deployments:
            yield from self.commands_around(deployment)

    def role_commands(self) -> Iterator[RoleCommand]:
        """The commands of the roles themselves."""
        for role in self.roles.values():
            yield from (RoleCommand(role.name, text) for text in role.node.sequence("commands").scalars())

    @staticmethod
    def commands_around(deployment: MappingNode) -> Iterator[RoleCommand]:
        """What a deployment runs before and after the commands of roles."""
        for entry in deployment.mapping("taskRoles"):
            around = deployment.mapping("taskRoles").mapping(entry.name)
            for key in ("preCommands", "postCommands"):
                yield from (RoleCommand(entry.name, text) for text in around.sequence(key).scalars())


@per_document
def job_of(document: Document) -> JobSpec:
    """The job in a document."""
    top = document.top
    prerequisites = tuple(_prerequisites(top))
    named: dict[str, list[Prerequisite]] = {}
    for prerequisite in prerequisites:
        named.setdefault(prerequisite.name.text, []).append(prerequisite)
    wishes = top.at("extras", "hivedScheduler", "taskRoles")
    return JobSpec(
        top,
        prerequisites,
        named,
        {
            entry.name: _role(entry, wishes)
            for entry in top.mapping("taskRoles")
            if isinstance(entry.value, MappingNode)
        },
        tuple((name, node) for node in top.sequence("deployments").mappings() if (name := node.text("name"))),
    )


def _prerequisites(top: MappingNode) -> Iterator[Prerequisite]:
    for node in top.sequence("prerequisites").mappings():
        name, kind = node.text("name"), node.text("type")
        if name is not None:
            yield Prerequisite(name, kind.text if kind else "", node)


def _role(entry: Entry, wishes: MappingNode) -> JobRole:
    node = (
        entry.value
        if isinstance(entry.value, MappingNode)
        else MappingNode(entry.key.source, entry.key.end, entry.key.end)
    )
    return JobRole(entry.key, node, wishes.mapping(entry.name))


def pod_name_part(role: str) -> str:
    """What OpenPAI makes of a role's name in names of pods: lower case, letters and digits only."""
    return re.sub(r"[^a-z0-9]", "", role.lower())
