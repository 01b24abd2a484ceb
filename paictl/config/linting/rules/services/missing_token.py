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

Fails with::

    # services-configuration.yaml
    -  pai-bearer-token: kept-elsewhere
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule

_NEED_TOKEN = ("stop-jobs", "tag-jobs", "email-user")
_HINT = "add pai-bearer-token: the token of an application, made on the user's page"


@rule("SVC708", "missing-token", ERROR)
def check(document: Document) -> Findings:
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
