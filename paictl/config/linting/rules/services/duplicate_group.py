"""Two groups have the same name.

Why: OpenPAI makes each group that is not there yet; the second of a name is passed over, with what it may do.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    authentication:
      OIDC: false
      group-manager:
        group-data-source: basic
        admin-group: {groupname: admins, extension: {acls: {admin: true}}}
        default-group: {groupname: everybody, extension: {acls: {admin: false}}}

Fails with::

    # services-configuration.yaml
         default-group: {groupname: everybody, extension: {acls: {admin: false}}}
    +    grouplist:
    +    - groupname: vision
    +    - groupname: vision
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.services import UserGroup, services_of
from paictl.config.reading.source import place_of


@rule("SVC711", "duplicate-group", ERROR)
def check(document: Document) -> Findings:
    """Every group after the first of its name."""
    first: dict[str, UserGroup] = {}
    for group in services_of(document).groups:
        earlier = first.setdefault(group.name.text, group)
        if earlier is not group:
            line = place_of(earlier.name).line
            message = f"group {group.name.text!r} stands twice, first in line {line} ({earlier.place})"
            yield Finding(group.name, message, "rename one of the two")
