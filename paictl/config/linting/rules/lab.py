"""Rules about guided labs: what would make a lab unusable, or a check hollow.

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
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.nodes import ScalarNode
from paictl.i18n import text
from paictl.suggestions import nearest

Ids: TypeAlias = AbstractSet[str]


def ids_in(document: Document, part: str) -> Ids:
    """The ids of the steps, checks or near misses (`part`) of a lab."""
    named = (mapping.text("id") for mapping in document.top.sequence(part).mappings())
    return {name.text for name in named if name is not None}


@rule("LAB901", "unknown-lab-id", ERROR)
def unknown_lab_id(document: Document) -> Findings:
    """A lab refers to a step or check that it does not have.

    Why: the check would never be evaluated, or the mistake never be played, and no one would notice.

    Fails with::

        # lab.yaml
        -  after: submit
        +  after: submitted
    """
    # Every reference to a step or check that is not there.
    steps, checks = ids_in(document, "steps"), ids_in(document, "checks")
    for message, name, known in _references(document, steps, checks):
        if name.text not in known:
            near = nearest(name.text, known)
            yield Finding(
                name,
                text(message, name=name.text),
                text("did you mean {near!r}?", near=near) if near else None,
            )


def _references(document: Document, steps: Ids, checks: Ids) -> Iterator[tuple[str, ScalarNode, Ids]]:
    for mapping in document.top.sequence("checks").mappings():
        if (after := mapping.text("after")) is not None:
            yield "no step {name!r}", after, steps
    for node in document.top.sequence("near-misses").mappings():
        for name in node.sequence("fails").scalars():
            yield "no check {name!r}", name, checks
        for entry in node.mapping("steps"):
            yield "no step {name!r}", entry.key, steps
        for name in node.sequence("order").scalars():
            yield "no step {name!r}", name, steps


@rule("LAB902", "repeated-lab-id", ERROR)
def repeated_lab_id(document: Document) -> Findings:
    """Two steps, checks or mistakes of a lab have the same id.

    Why: a student's progress is stored by id, so one of the two would count for both.

    Fails with::

        # lab.yaml
           - job: {name: job, state: Running}
        +- id: runs
        +  after: submit
        +  says: {en: The job is of vc1., zh: 作业属于 vc1。}
        +  look: paictl job list
        +  expect:
        +  - job: {name: job, vc: vc1}
    """
    # Every id that was given before in the same list.
    for part in ("steps", "checks", "near-misses"):
        seen: set[str] = set()
        for mapping in document.top.sequence(part).mappings():
            name = mapping.text("id")
            if name is not None and name.text in seen:
                yield Finding(
                    name,
                    text("the id {name!r} appears twice in {part}", name=name.text, part=part),
                    "give each its own",
                )
            elif name is not None:
                seen.add(name.text)


@rule("LAB903", "hollow-check", ERROR)
def hollow_check(document: Document) -> Findings:
    """No mistake makes a check fail.

    Why: a check that has never failed may pass for everything. Name at least one near miss that makes it fail; the
    self-test plays it.

    Fails with::

        # lab.yaml
           - job: {name: job, state: Running}
        +- id: in-vc1
        +  after: submit
        +  says: {en: The job is of vc1., zh: 作业属于 vc1。}
        +  look: paictl job list
        +  expect:
        +  - job: {name: job, vc: vc1}
    """
    # Every check that no near miss names.
    misses = document.top.sequence("near-misses").mappings()
    named = {name.text for miss in misses for name in miss.sequence("fails").scalars()}
    for mapping in document.top.sequence("checks").mappings():
        name = mapping.text("id")
        if name is not None and name.text not in named:
            yield Finding(
                name,
                text("no near miss makes the check {name!r} fail", name=name.text),
                "describe one under near-misses",
            )
