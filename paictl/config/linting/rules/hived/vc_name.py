"""The name of a virtual cluster is not made of lower-case letters and digits, at most 34.

Why: OpenPAI makes a StatefulSet hivedscheduler-ds-NAME and a user group NAME of it; only lower-case letters and digits
are allowed in both. HiveD alone does not mind.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}

Fails with::

    # hivedscheduler.yaml
    -  default:
    +  Web_Search:
"""

from __future__ import annotations

import re

from paictl.config.linting.rule import ERROR, WARNING, Document, Finding, Findings, rule
from paictl.config.models.hived import hived

_FORM = re.compile(r"[a-z0-9]+")
_LONGEST = 34
"""A StatefulSet's name may have 52 characters, because labels of its pods add 11 and may have 63."""


@rule("HVD531", "vc-name", WARNING)
def check(document: Document) -> Findings:
    """Each name of a virtual cluster that one of the two would refuse."""
    for vc in hived(document).vcs:
        if vc.key.plain and vc.key.tag == "bool":
            message = f"YAML reads the name {vc.name} as {str(vc.key.value).lower()}, and so may the scheduler"
            hint = f'write "{vc.name}" in quotes, or choose another name'
            yield Finding(vc.key, message, hint, severity=ERROR)  # the scheduler does not start with it
            continue
        if not _FORM.fullmatch(vc.name):
            message = f"virtual cluster {vc.name!r} must be named with lower-case letters and digits only"
            yield Finding(vc.key, message, "choose another name before users are granted access: renaming loses grants")
        elif len(vc.name) > _LONGEST:
            message = f"the name of virtual cluster {vc.name} has {len(vc.name)} characters, {_LONGEST} are allowed"
            yield Finding(vc.key, message, "shorten it")
