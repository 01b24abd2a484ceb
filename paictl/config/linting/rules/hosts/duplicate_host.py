"""A host list names a machine twice.

Why: the second line silently replaces the first in Ansible's inventory, so that one machine is never deployed.

Passes::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2
    pai-worker-1,10.1.1.3
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, rule
from paictl.config.models.hosts import HostRow, host_list
from paictl.config.reading.source import place_of


@rule("CSV212", "duplicate-host", ERROR)
def check(document: Document) -> Findings:
    """Each line that repeats an earlier name; upper and lower case are the same name to DNS."""
    seen: dict[str, HostRow] = {}
    for host in host_list(document).hosts:
        first = seen.setdefault(host.key, host)
        if first is host or not host.key:
            continue
        line = place_of(first.row).line
        if first.address.stripped == host.address.stripped:
            edits = (Edit(host.row.whole, ""),)
            yield Finding(
                host.name,
                f"host {host.name.stripped!r} stands here again",
                f"remove it: line {line} is the same",
                edits,
            )
        else:
            message = f"host {host.name.stripped!r} has another address in line {line}"
            yield Finding(host.name, message, "name each machine once")
