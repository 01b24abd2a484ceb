"""Two steps, checks or mistakes of a lab have the same id.

Why: what a student has done is kept by id, so one of the two would count for both.

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
    +- id: runs
    +  after: submit
    +  says: {en: The job is of vc1., zh: 作业属于 vc1。}
    +  look: paictl job list
    +  expect:
    +  - job: {name: job, vc: vc1}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule


@rule("LAB902", "repeated-lab-id", ERROR)
def check(document: Document) -> Findings:
    """Every id that was given before in the same list."""
    for part in ("steps", "checks", "near-misses"):
        seen: set[str] = set()
        for one in document.top.sequence(part).mappings():
            name = one.text("id")
            if name is not None and name.text in seen:
                yield Finding(name, f"the id {name.text!r} stands twice in {part}", "give each its own")
            elif name is not None:
                seen.add(name.text)
