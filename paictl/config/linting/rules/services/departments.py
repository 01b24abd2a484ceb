"""Departments, in the section `sharing`.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    sharing:
      departments:
      - {name: research, devices: 16}
      - {name: perception, parent: research, vcs: [vision, speech]}
      - {name: products, vcs: [ads]}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.reading.nodes import MappingNode, ScalarNode
from paictl.config.reading.source import place_of
from paictl.i18n import listed, text
from paictl.workload.departments import DEEPEST


@rule("SVC737", "department-twice", ERROR)
def department_twice(document: Document) -> Findings:
    """A department is defined twice, or a virtual cluster is in two departments.

    Why: a virtual cluster can lend its unused devices first within one department only.

    Fails with::

        # services-configuration.yaml
        -  - {name: products, vcs: [ads]}
        +  - {name: products, vcs: [ads, speech]}
    """
    # Every name of a department, and every virtual cluster in one, that an earlier entry has.
    names, members = dict[str, ScalarNode](), dict[str, ScalarNode]()
    for row in rows_of(document):
        if (name := row.text("name")) is not None and (earlier := names.setdefault(name.text, name)) is not name:
            message = text(
                "a second department {name}, the first is in line {line}", name=name.text, line=place_of(earlier).line
            )
            yield Finding(name, message, "rename one of the two, or merge them")
        for vc in row.sequence("vcs").scalars():
            if (earlier := members.setdefault(vc.text, vc)) is not vc:
                message = text(
                    "virtual cluster {vc} is in a department already, see line {line}",
                    vc=vc.text,
                    line=place_of(earlier).line,
                )
                yield Finding(vc, message, "remove it from one of the two")


@rule("SVC738", "department-parent", ERROR)
def department_parent(document: Document) -> Findings:
    """The parent of a department does not exist, departments are parts of each other, or nested too deeply.

    Why: if the chain of parents does not end, it is unknown whose unused devices a team may use first.

    Fails with::

        # services-configuration.yaml
        -  - {name: research, devices: 16}
        +  - {name: research, devices: 16, parent: perception}
    """
    # Every parent that is not the name of a department; of a circle the first of them.
    parents = parents_of(document)
    circles: set[str] = set()
    known = text("name one of: {names}", names=listed(parents))
    for row in rows_of(document):
        name, parent = row.text("name"), row.text("parent")
        if name is None or parent is None:
            continue
        if parent.text not in parents:
            hint = suggested(parent, parents, known)
            yield Finding(parent, text("no department {name!r}", name=parent.text), *hint)
            continue
        line = line_of(name.text, parents)
        if len(line) > DEEPEST:
            message = text("departments are nested deeper than {most}", most=DEEPEST)
            yield Finding(parent, message, "remove a level")
        elif parents.get(line[-1]) == name.text and name.text not in circles:
            circles |= set(line)
            message = text("departments are parts of each other: {names}", names=" → ".join([*line, name.text]))
            yield Finding(parent, message, "remove one of the parents")


@rule("SVC739", "department-empty", ERROR)
def department_empty(document: Document) -> Findings:
    """A department has no virtual clusters, neither directly nor in a department below it.

    Why: it has nothing to lend, and no one to lend to.

    Fails with::

        # services-configuration.yaml
        -  - {name: products, vcs: [ads]}
        +  - {name: products, vcs: []}
    """
    parents, used = parents_of(document), set[str]()
    for row in rows_of(document):
        name = row.text("name")
        if name is not None and any(True for _ in row.sequence("vcs").scalars()):
            used |= set(line_of(name.text, parents))
    for row in rows_of(document):
        name = row.text("name")
        if name is not None and name.text not in used:
            message = text("department {name} has no virtual clusters", name=name.text)
            yield Finding(name, message, "add them as vcs, or remove the department")


def rows_of(document: Document) -> Iterator[MappingNode]:
    """The departments, as they are written."""
    yield from document.top.mapping("sharing").sequence("departments").mappings()


def parents_of(document: Document) -> dict[str, str]:
    """The parent of each department, empty where it has none; of two with one name the first counts."""
    parents: dict[str, str] = {}
    for row in rows_of(document):
        name, parent = row.text("name"), row.text("parent")
        if name is not None:
            parents.setdefault(name.text, "" if parent is None else parent.text)
    return parents


def line_of(name: str, parents: dict[str, str]) -> list[str]:
    """A department and those around it, as far as they are known and none comes twice; one more than there may be."""
    line: dict[str, None] = {}
    while name in parents and name not in line and len(line) <= DEEPEST:
        line[name] = None
        name = parents[name]
    return list(line)
