"""Virtual clusters: their names and the cells in their lists."""

from __future__ import annotations

import re

from paictl.config.linting.rule import ERROR, INFO, WARNING, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_promises import Promise
from paictl.config.reading.nodes import MappingNode
from paictl.config.reading.source import place_of
from paictl.i18n import text

_FORM = re.compile(r"[a-z0-9]+")


_LONGEST = 34
"""A StatefulSet's name may have 52 characters, because labels of its pods add 11 and may have 63."""


@rule("HVD531", "vc-name", WARNING)
def vc_name(document: Document) -> Findings:
    """The name of a virtual cluster is longer than 34 characters, or has others than lower-case letters and digits.

    Why: OpenPAI makes a StatefulSet hivedscheduler-ds-NAME and a user group NAME of it; only lower-case letters and
    digits are allowed in both. HiveD alone does not mind.

    Fails with::

        # hivedscheduler.yaml
        -  default:
        +  Web_Search:
    """
    # Each name of a virtual cluster that one of the two would refuse.
    for vc in hived(document).vcs:
        if vc.key.plain and vc.key.tag == "bool":
            message = text(
                "YAML reads the name {vc} as {read}, and so may the scheduler",
                vc=vc.name,
                read=str(vc.key.value).lower(),
            )
            hint = text('write "{vc}" in quotes, or choose another name', vc=vc.name)
            yield Finding(vc.key, message, hint, severity=ERROR)  # the scheduler does not start with it
            continue
        if not _FORM.fullmatch(vc.name):
            message = text("virtual cluster {vc!r} must be named with lower-case letters and digits only", vc=vc.name)
            yield Finding(vc.key, message, "choose another name before users are granted access: renaming loses grants")
        elif len(vc.name) > _LONGEST:
            message = text(
                "the name of virtual cluster {vc} has {count} characters, {longest} are allowed",
                vc=vc.name,
                count=len(vc.name),
                longest=_LONGEST,
            )
            yield Finding(vc.key, message, "shorten it")


@rule("HVD532", "vc-without-cells", WARNING)
def vc_without_cells(document: Document) -> Findings:
    """A virtual cluster is promised nothing.

    Why: Its users can only run opportunistic jobs, which any guaranteed job can preempt.

    Fails with::

        # hivedscheduler.yaml
         virtualClusters:
        +  web: {}
    """
    # Each virtual cluster with neither virtual nor pinned cells.
    for entry in document.top.mapping("virtualClusters"):
        if not isinstance(entry.value, MappingNode):
            continue
        lists = ("virtualCells", "pinnedCells", "reservedCells")
        if any(_is_filled(entry.value, name) for name in lists):
            continue
        message = text("virtual cluster {vc} is promised no cells", vc=entry.name)
        yield Finding(entry.key, message, "add virtualCells or pinnedCells, or remove it")


def _is_filled(spec: MappingNode, name: str) -> bool:
    """Whether something stands under a key, be it of the wrong shape, which the schema reports."""
    value = spec.get(name)
    return isinstance(value, MappingNode) or len(spec.sequence(name)) > 0


@rule("HVD533", "zero-cells", WARNING)
def zero_cells(document: Document) -> Findings:
    """A virtual cluster is promised zero cells of a type.

    Why: The entry has no effect; users who read the file believe that they have a share of this type.

    Fails with::

        # hivedscheduler.yaml
        -    - {cellType: NODE, cellNumber: 1}
        +    - {cellType: NODE, cellNumber: 0}
    """
    for vc in hived(document).vcs:
        for entry in vc.spec.sequence("virtualCells").mappings():
            at = entry.scalar("cellNumber")
            if at is not None and entry.integer("cellNumber") == 0:
                message = text("virtual cluster {vc} is promised 0 cells here", vc=vc.name)
                yield Finding(at, message, "write how many cells, or remove the entry")


@rule("HVD537", "repeated-promise", INFO)
def repeated_promise(document: Document) -> Findings:
    """A virtual cluster lists the same cells in two entries.

    Why: HiveD adds the numbers up. Someone who changes one of the entries may believe that it is the only one.

    Passes::

        # hivedscheduler.yaml
        physicalCluster:
          cellTypes:
            NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
          physicalCells:
          - {cellType: NODE, cellAddress: worker1}
          - {cellType: NODE, cellAddress: worker2}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: NODE, cellNumber: 2}

    Fails with::

        # hivedscheduler.yaml
        -    - {cellType: NODE, cellNumber: 2}
        +    - {cellType: NODE, cellNumber: 1}
        +    - {cellType: NODE, cellNumber: 1}
    """
    # Each entry for a chain and level that an earlier one of the virtual cluster has.
    for vc in hived(document).vcs:
        seen: dict[tuple[str, int], Promise] = {}
        for promise in vc.promises:
            if promise.chain is None or not promise.level or promise.pin_id is not None:
                continue
            first = seen.setdefault((promise.chain.name, promise.level), promise)
            if first is not promise:
                line = place_of(first.at).line
                message = text(
                    "{vc} is promised {type} cells of {chain} in line {line} already",
                    vc=vc.name,
                    type=promise.type,
                    chain=promise.chain.name,
                    line=line,
                )
                yield Finding(promise.at, message, "merge the two entries; the numbers add up")


@rule("HVD538", "no-default-vc", WARNING)
def no_default_vc(document: Document) -> Findings:
    """OpenPAI has no virtual cluster named default.

    Why: Jobs that name no virtual cluster go to default, and every new user is granted it.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: paiadmin
          default-pai-admin-password: "chosen-when-you-deploy-1"
          jwt-secret: "also-chosen-when-you-deploy"
        hivedscheduler:
          config: |
            physicalCluster:
              skuTypes:
                GPU: {gpu: 1, cpu: 8, memory: 65536Mi}
              cellTypes:
                NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
              physicalCells:
              - {cellType: NODE, cellAddress: worker1}
            virtualClusters:
              default:
                virtualCells:
                - {cellType: NODE, cellNumber: 1}

    Fails with::

        # services-configuration.yaml
        -      default:
        +      web:
    """
    # The section of virtual clusters without default, in service settings.
    at = document.top.key("virtualClusters")
    vcs = hived(document).vcs
    if document.host is not None and at is not None and vcs and not any(vc.name == "default" for vc in vcs):
        yield Finding(at, "no virtual cluster default", "add one, or name one of the others default")
