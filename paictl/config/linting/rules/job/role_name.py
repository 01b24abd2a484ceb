"""The name of a task role is one that the server, HiveD or the web page refuses.

Why: the three disagree. The server takes letters, digits and `_`, not beginning with a digit; what HiveD is told takes
`.` and `~` as well; the web page's editor takes lower-case letters and digits only. `worker1` is fine everywhere.

Passes::

    # job.yaml
    protocolVersion: 2
    name: mnist
    type: job
    prerequisites:
    - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
    taskRoles:
      train:
        dockerImage: image
        resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
        commands: [python3 train.py]

Fails with::

    # job.yaml
    -  train:
    +  train-1:
"""

from __future__ import annotations

import re

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, Severity, rule
from paictl.config.models.job import job_of, pod_name_part

_WEB_PAGE = "the web page"
_READERS = {
    "the server": re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z"),
    "HiveD": re.compile(r"[A-Za-z0-9._~]+\Z"),
    _WEB_PAGE: re.compile(r"[a-z0-9]{1,63}\Z"),
}
_HINT = "use lower-case letters and digits, e.g. worker1"


@rule("JOB607", "role-name", ERROR)
def check(document: Document) -> Findings:
    """Every task role that somebody refuses; only the web page's taste is no error."""
    for role in job_of(document).roles.values():
        refusers = [reader for reader, pattern in _READERS.items() if not pattern.match(role.name)]
        if not pod_name_part(role.name):
            yield Finding(role.key, f"nothing of task role {role.name!r} is left in names of pods", _HINT)
        elif refusers:
            milder = Severity.INFO if refusers == [_WEB_PAGE] else None
            yield Finding(
                role.key, f"task role {role.name!r} is refused by {' and '.join(refusers)}", _HINT, (), milder
            )
