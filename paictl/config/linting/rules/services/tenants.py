"""Rules of virtual clusters in the services configuration.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    tenants:
      vision: {default-run-time: 24h, max-run-time: 7d}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, WARNING, Document, Finding, Findings, rule
from paictl.config.reading.nodes import MappingNode, ScalarNode
from paictl.errors import PaictlError
from paictl.units import Millis, span_text
from paictl.workload.runlimits import limit_of
from paictl.workload.tenants import SECTION


@rule("SVC725", "run-time-over-maximum", ERROR)
def run_time_over_maximum(document: Document) -> Findings:
    """The default run time of a virtual cluster is longer than its maximum.

    Why: jobs that say nothing would get a limit that jobs may not ask for.

    Fails with::

        # services-configuration.yaml
        -  vision: {default-run-time: 24h, max-run-time: 7d}
        +  vision: {default-run-time: 10d, max-run-time: 7d}
    """
    for entry in document.top.mapping(SECTION):
        keys = entry.value if isinstance(entry.value, MappingNode) else None
        default = keys.scalar("default-run-time") if keys is not None else None
        most = keys.scalar("max-run-time") if keys is not None else None
        if default is None or most is None:
            continue
        asked, bound = _limit(default), _limit(most)
        if asked is not None and bound is not None and asked > bound:
            message = f"the default run time {span_text(asked)} is longer than the maximum {span_text(bound)}"
            yield Finding(default, message, f"write at most {most.text}")


@rule("SVC726", "default-run-time-unused", WARNING)
def default_unused(document: Document) -> Findings:
    """A virtual cluster has a default run time, and demands that jobs say theirs.

    Why: a job that says nothing is refused, so that the default is never given.

    Fails with::

        # services-configuration.yaml
        -  vision: {default-run-time: 24h, max-run-time: 7d}
        +  vision: {default-run-time: 24h, require-run-time: true}
    """
    for entry in document.top.mapping(SECTION):
        keys = entry.value if isinstance(entry.value, MappingNode) else None
        default = keys.key("default-run-time") if keys is not None else None
        required = keys.scalar("require-run-time") if keys is not None else None
        if default is not None and required is not None and required.text == "true":
            message = f"jobs of {entry.name} must say their run time, so that no job gets the default"
            yield Finding(default, message, "remove one of the two keys")


def _limit(node: ScalarNode) -> Millis | None:
    try:
        return limit_of(node.text)
    except PaictlError:  # the schema reports it
        return None
