"""Who submits what where: the one place that looks whether a virtual cluster was granted."""

from __future__ import annotations

from collections.abc import Mapping

from paictl.cluster.interface import JobRequest
from paictl.i18n import text
from paictl.server.calls import ApiError, Call
from paictl.workload.job import DEFAULT_VC


def request_for(call: Call, data: Mapping[str, object]) -> JobRequest:
    """A job of whoever calls. Raises `ApiError` for a virtual cluster that was not granted."""
    defaults = data.get("defaults")
    vc = (defaults.get("virtualCluster") if isinstance(defaults, Mapping) else None) or DEFAULT_VC
    if not call.me.may_submit_to(str(vc)):
        raise ApiError(
            403, "ForbiddenUserError",
            text("user {user} may not submit to virtual cluster {vc}", user=call.me.name, vc=str(vc)[:80]),
        )  # fmt: skip
    return JobRequest(call.me.name, data)
