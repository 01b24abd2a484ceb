"""A machine stands in the list of masters and in the list of workers.

Why: jobs would take memory and disk from etcd and the API server; OpenPAI refuses a master that is a worker, but only
after the machines are set up.

Passes::

    # master.csv
    pai-master-1,10.1.0.1
    pai-master-2,10.1.0.2
    pai-master-3,10.1.0.3
    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails with::

    # worker.csv
    -pai-worker-2,10.1.1.2
    +pai-master-2,10.1.0.2
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.models.hosts import abridged
from paictl.config.models.inventory import hosts_in
from paictl.config.reading.kinds import FileKind


@rule("XRF901", "master-in-worker-list", ERROR)
def check(bundle: Bundle) -> Findings:
    """Each worker whose name is that of a master."""
    masters, workers = hosts_in(bundle, FileKind.MASTER_CSV), hosts_in(bundle, FileKind.WORKER_CSV)
    if masters is None or workers is None:
        return
    names = {host.key for host in masters.hosts}
    for host in workers.hosts:
        if host.key and host.key in names:
            message = f"{abridged(host.name.stripped)} is also in the list of masters"
            yield Finding(host.name, message, "remove it from one of the two lists")
