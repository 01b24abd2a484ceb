"""No mistake makes a check fail.

Why: a check that nobody has seen fail may be true of everything. Name at least one near miss under which it fails;
the self-test plays it.

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
       - job: {name: job, state: Running}
    +- id: in-vc1
    +  after: submit
    +  says: {en: The job is of vc1., zh: 作业属于 vc1。}
    +  look: paictl job list
    +  expect:
    +  - job: {name: job, vc: vc1}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule


@rule("LAB903", "hollow-check", ERROR)
def check(document: Document) -> Findings:
    """Every check that no near miss names."""
    misses = document.top.sequence("near-misses").mappings()
    named = {name.text for miss in misses for name in miss.sequence("fails").scalars()}
    for one in document.top.sequence("checks").mappings():
        name = one.text("id")
        if name is not None and name.text not in named:
            yield Finding(name, f"no near miss makes the check {name.text!r} fail", "describe one under near-misses")
