"""The alert manager is told to do something for which it needs a token, but has none.

Why: reports of cluster utilization, stopping and tagging jobs, and mail to users ask the rest server, for which OpenPAI
wants `pai-bearer-token`; without it they are left out without a word.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    alert-manager:
      pai-bearer-token: kept-elsewhere
      cluster-utilization: {schedule: '0 0 * * *'}

Fails::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    alert-manager:
      cluster-utilization: {schedule: '0 0 * * *'}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity

ID = "SVC708"
NAME = "missing-token"
SEVERITY = Severity.ERROR

_NEED_TOKEN = ("stop-jobs", "tag-jobs", "email-user")
_HINT = "add pai-bearer-token: the token of an application, made on the user's page"


def check(document: Document) -> Iterator[Finding]:
    """Every setting that stays without effect for want of a token."""
    alerts = document.top.mapping("alert-manager")
    if "pai-bearer-token" in alerts or "pai-bearer-token" in alerts.mapping("alert-handler"):
        return
    schedule = alerts.mapping("cluster-utilization").key("schedule")
    if schedule is not None:
        yield Finding(schedule, "the report of cluster utilization stays off without pai-bearer-token", _HINT)
    for receiver in alerts.sequence("customized-receivers").mappings():
        for entry in receiver.mapping("actions"):
            if entry.name in _NEED_TOKEN:
                yield Finding(entry.key, f"the action {entry.name} has no effect without pai-bearer-token", _HINT)
