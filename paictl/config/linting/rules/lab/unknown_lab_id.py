"""A lab refers to a step or check that it does not have.

Why: the check would never be judged, or the mistake never be played, and nobody would notice.

Passes::

    # lab.yaml
    lab: 20_example
    title: {en: Example, zh: 例子}
    goal: {en: See a job run., zh: 看到作业运行。}
    needs: {preset: lab}
    steps:
    - id: submit
      text: {en: Submit a job., zh: 提交作业。}
      commands: [paictl job submit job.yaml]
    checks:
    - id: runs
      after: submit
      says: {en: The job runs., zh: 作业在运行。}
      look: paictl job list
      expect:
      - job: {name: job, state: Running}
    near-misses:
    - id: nothing
      says: {en: Nothing was submitted., zh: 没有提交作业。}
      fails: [runs]
      steps: {submit: {commands: []}}
    questions: []

Fails with::

    # lab.yaml
    -  after: submit
    +  after: submitted
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.lab import Ids, ids_in
from paictl.config.reading.nodes import ScalarNode
from paictl.words import nearest


@rule("LAB901", "unknown-lab-id", ERROR)
def check(document: Document) -> Findings:
    """Every reference to a step or check that is not there."""
    steps, checks = ids_in(document, "steps"), ids_in(document, "checks")
    for what, name, known in _references(document, steps, checks):
        if name.text not in known:
            near = nearest(name.text, known)
            yield Finding(name, f"there is no {what} {name.text!r}", f"did you mean {near!r}?" if near else None)


def _references(document: Document, steps: Ids, checks: Ids) -> Iterator[tuple[str, ScalarNode, Ids]]:
    for one in document.top.sequence("checks").mappings():
        if (after := one.text("after")) is not None:
            yield "step", after, steps
    for one in document.top.sequence("near-misses").mappings():
        for name in one.sequence("fails").scalars():
            yield "check", name, checks
        for entry in one.mapping("steps"):
            yield "step", entry.key, steps
        for name in one.sequence("order").scalars():
            yield "step", name, steps
