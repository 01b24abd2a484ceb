"""Merge instead of replace: a push never drops a key that it did not mean to.

The result is the pushed text with the lines spliced in that only the cluster has. Mappings are merged key by key at any
depth; lists and all other values, the text of `hivedscheduler.config` among them, are taken from the pushed file as a
whole. The result is read again and must hold exactly what it should.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field

from paictl import i18n
from paictl.config.pushing import yamltext
from paictl.config.pushing.configfile import ConfigFile
from paictl.config.reading.nodes import Data, Entry, KeyPath, MappingNode, Node, ScalarNode, dotted, to_data
from paictl.config.reading.problem import Replacement
from paictl.config.reading.source import Source
from paictl.config.reading.yamltree import parse_yaml
from paictl.errors import PaictlError
from paictl.frozen import frozen

_COLON = re.compile(r"\s*:")


@frozen
class Merged:
    """The outcome: `kept` are the paths that only the cluster has, `changed` those whose value the push replaces,
    `added` those that only the pushed file has. A path that stands for a mapping stands for all below it.
    """

    file: ConfigFile
    kept: tuple[KeyPath, ...] = ()
    changed: tuple[KeyPath, ...] = ()
    added: tuple[KeyPath, ...] = ()


def merge(old: ConfigFile, new: ConfigFile, drop: Collection[KeyPath] = ()) -> Merged:
    """Merge the file that a cluster has (`old`) and the file that is pushed (`new`).

    An empty section of the pushed file (a key without a value) keeps what the cluster has below it. `drop` names keys
    that the cluster is to lose; one that it does not have, or that the pushed file has as well, is an error. Raises
    `PaictlError` if a text cannot be read, or if a section would have to change that is written elsewhere (an alias).
    """
    before, after = _ended(old), _ended(new)
    pushed = _readable(after, new.name)
    for path in drop:
        if after.node(path) is not None:
            hint = "remove it from the file"
            raise PaictlError(
                i18n.text("{key} would be both dropped and pushed", key=dotted(path)), where=new.name, hint=hint
            )
        before = _without(before, path)
    kept = _readable(before, "the cluster's file")
    if not isinstance(kept, MappingNode) or not isinstance(pushed, MappingNode | None):
        same = kept is None or _canonical(_data(kept)) == _canonical(_data(pushed))
        return Merged(new, changed=() if same else ((),))
    differences = _Differences()
    differences.between(to_data(kept), to_data(pushed) if pushed else {})
    if not differences.kept:
        return differences.merged(new)
    wanted = _canonical(merged_data(to_data(kept), _data(pushed)))
    for verbatim, apart in ((True, True), (True, False), (False, False)):
        merging = _Merging(before.text, after.text, verbatim, apart)
        try:
            merging.mappings(kept, pushed or MappingNode(kept.source, 0, 0), 0)
        except _ElsewhereError:
            break
        made = new.with_text(merging.text(pushed))
        if not made.fatal and _canonical(_data(made.root)) == wanted:
            return differences.merged(made)
    paths = ", ".join(dotted(path) for path in differences.kept[:5])
    hint = "write the file without anchors and aliases, or add these keys to it"
    raise PaictlError(
        i18n.text("cannot keep the keys that only the cluster has: {paths}", paths=paths), where=new.name, hint=hint
    )


def merged_data(old: Data, new: Data) -> Data:
    """What the merge of two files holds."""
    if isinstance(old, dict) and old and new is None:
        return old
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    both = {name: merged_data(old[name], value) if name in old else value for name, value in new.items()}
    return both | {name: value for name, value in old.items() if name not in new}


@dataclass(slots=True)
class _Differences:
    """Paths in which the data of two files differ."""

    kept: list[KeyPath] = field(default_factory=list)
    changed: list[KeyPath] = field(default_factory=list)
    added: list[KeyPath] = field(default_factory=list)

    def between(self, old: Data, new: Data, path: KeyPath = ()) -> None:
        if isinstance(old, dict) and isinstance(new, dict):
            for name, value in old.items():
                if name in new:
                    self.between(value, new[name], (*path, name))
                else:
                    self.kept.append((*path, name))
            self.added.extend((*path, name) for name in new if name not in old)
        elif isinstance(old, dict) and old and new is None:
            self.kept.extend((*path, name) for name in old)
        elif _canonical(old) != _canonical(new):
            self.changed.append(path)

    def merged(self, file: ConfigFile) -> Merged:
        return Merged(file, tuple(self.kept), tuple(self.changed), tuple(self.added))


class _ElsewhereError(Exception):
    """A section that has to differ here is written elsewhere, behind an alias or ``<<``."""


@dataclass(slots=True)
class _Insertion:
    """Lines to be put at an offset; of several at one place the deeper ones come first."""

    at: int
    depth: int
    lines: str


@dataclass(slots=True)
class _Merging:
    """One attempt.

    `verbatim`: lines of the cluster's file are taken as they are, else their values written anew. `apart`: a blank line
    comes between a comment and what is put in, which a ``|+`` block above would count as its own.
    """

    before: str
    after: str
    verbatim: bool
    apart: bool
    insertions: list[_Insertion] = field(default_factory=list)
    edits: list[Replacement] = field(default_factory=list)
    flows: dict[int, list[str]] = field(default_factory=dict)

    def mappings(self, old: MappingNode, new: MappingNode, depth: int) -> None:
        """Put into a mapping what only its counterpart of the cluster has."""
        for entry in old:
            there = new.entries.get(entry.name)
            if there is None:
                self.keep(entry, new, depth)
            elif isinstance(entry.value, MappingNode) and isinstance(there.value, MappingNode):
                self.below(entry, there, new, depth)
            elif isinstance(entry.value, MappingNode) and len(entry.value) and _is_null(there.value):
                self.fill(entry, there, new, depth)

    def keep(self, entry: Entry, new: MappingNode, depth: int) -> None:
        """Take an entry of the cluster's file over into a mapping of the pushed one."""
        own = yamltext.own_entries(self.after, new)
        if own:
            column = yamltext.column_of(self.after, own[0].key)
            at = yamltext.end_of_entry(self.after, own[-1])
            self.insertions.append(_Insertion(at, depth, self.lines(entry, column)))
        elif yamltext.is_flow(self.after, new) and not (depth == 0 and not len(new)):
            self.flows.setdefault(new.end - 1, []).append(yamltext.flow_entry(entry.name, to_data(entry.value)))
        elif len(new):  # nothing but `<<`
            column = yamltext.column_of(self.after, new)
            at = yamltext.line_end(self.after, new.start)
            self.insertions.append(_Insertion(at, depth, self.lines(entry, column)))
        else:
            self.insertions.append(_Insertion(len(self.after), depth, self.lines(entry, 0)))

    def below(self, entry: Entry, there: Entry, parent: MappingNode, depth: int) -> None:
        """Merge two mappings below a key."""
        old, value, differences = entry.value, there.value, _Differences()
        assert isinstance(old, MappingNode)  # noqa: S101 - narrows the type
        assert isinstance(value, MappingNode)  # noqa: S101 - narrows the type
        differences.between(to_data(old), to_data(value))
        if not differences.kept:
            return
        if there.key.start < parent.start or yamltext.is_alias(there):
            raise _ElsewhereError
        if len(value) or not yamltext.is_flow(self.after, value):
            self.mappings(old, value, depth + 1)
        else:
            self.fill(entry, there, parent, depth)

    def fill(self, entry: Entry, there: Entry, parent: MappingNode, depth: int) -> None:
        """Put what the cluster has below a key into the empty section that the pushed file has there."""
        old = entry.value
        assert isinstance(old, MappingNode)  # noqa: S101 - narrows the type
        colon = _COLON.match(self.after, there.key.end)
        behind = colon.end() if colon else there.key.end
        if there not in yamltext.own_entries(self.after, parent):
            text = f"{'' if colon else ':'} {yamltext.flow_value(to_data(old))}"
            self.edits.append(Replacement(behind, max(there.value.end, behind), text))
            return
        if there.value.end > behind:
            self.edits.append(Replacement(behind, there.value.end, ""))
        column = yamltext.column_of(self.after, there.key)
        lines = yamltext.own_entries(self.before, old)
        step = (
            yamltext.column_of(self.before, lines[0].key) - yamltext.column_of(self.before, entry.key) if lines else 2
        )
        at = yamltext.line_end(self.after, max(there.value.end, behind))
        for below in old:
            self.insertions.append(_Insertion(at, depth + 1, self.lines(below, column + max(step, 1))))

    def lines(self, entry: Entry, column: int) -> str:
        """The lines of an entry at an indentation: as they are if they mean the same alone, else written anew."""
        if self.verbatim and yamltext.stands_alone(self.before, entry.key) and not yamltext.is_alias(entry):
            lines = yamltext.lines_of_entry(self.before, entry, column)
            alone = yamltext.lines_of_entry(self.before, entry, 0)
            tree = parse_yaml(Source("kept", alone))
            if not tree.fatal and _canonical(_data(tree.root)) == _canonical({entry.name: to_data(entry.value)}):
                return lines
        return " " * column + yamltext.flow_entry(entry.name, to_data(entry.value)) + "\n"

    def text(self, root: Node | None) -> str:
        """The pushed text with everything put in."""
        text = self.after
        edits = list(self.edits)
        if isinstance(root, MappingNode) and not len(root):
            edits.append(Replacement(root.start, root.end, ""))
        for brace, entries in self.flows.items():
            comma = "" if _ends_list(text[:brace]) else ", "
            edits.append(Replacement(brace, brace, comma + ", ".join(entries)))
        newline = "\r\n" if "\r\n" in text else "\n"
        places: dict[int, list[_Insertion]] = {}
        for insertion in self.insertions:
            places.setdefault(insertion.at, []).append(insertion)
        for at, place in places.items():
            above = self.after[yamltext.line_start(self.after, max(at - 1, 0)) : at]
            lines = ""
            for insertion in sorted(place, key=lambda insertion: -insertion.depth):
                lines += _set_apart(lines or above, insertion.lines) if self.apart else insertion.lines.lstrip("\n")
            edits.append(Replacement(at, at, lines.replace("\n", newline)))
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
            text = text[: edit.start] + edit.text + text[edit.end :]
        return text


def _set_apart(above: str, lines: str) -> str:
    """Lines with a blank line before them if they come with one, or would seem to belong to a comment above.

    Never a second blank line: each push would add one, and a block may count those at its end as text.
    """
    last = above.splitlines()[-1].strip() if above else ""
    if not last:
        return lines.removeprefix("\n")
    return "\n" + lines if last.startswith("#") and not lines.startswith("\n") else lines


def _ends_list(text: str) -> bool:
    """Whether a flow mapping that is still open at the end of a text takes an entry without a comma before it."""
    bare = "\n".join(re.sub(r"(^|\s)#.*", "", line) for line in text.splitlines()[-50:])
    return bare.rstrip().endswith(("{", ","))


def _without(file: ConfigFile, path: KeyPath) -> ConfigFile:
    """A file without one key; raises `PaictlError` if it has no such key."""
    root = _readable(file, "the cluster's file")
    parent = file.node(path[:-1])
    entry = parent.entries.get(path[-1]) if isinstance(parent, MappingNode) else None
    if root is None or not isinstance(parent, MappingNode) or entry is None:
        hint = "see the cluster's keys with: paictl config pull"
        raise PaictlError(i18n.text("the cluster has no key {key} to drop", key=dotted(path)), hint=hint)
    text = file.text
    if len(parent) > 1 and entry in yamltext.own_entries(text, parent):
        cut = text[: yamltext.start_of_entry(text, entry)] + text[yamltext.end_of_entry(text, entry) :]
    else:
        rest = {other.name: to_data(other.value) for other in parent if other is not entry}
        cut = text[: parent.start] + yamltext.flow_value(rest) + text[parent.end :]
    made = file.with_text(cut)
    if made.fatal or _canonical(_data(made.root)) != _canonical(_pruned(to_data(root), path)):
        raise PaictlError(
            i18n.text("cannot drop {key} from the cluster's file", key=dotted(path)),
            hint="drop the section around it",
        )
    return made


def _pruned(data: Data, path: KeyPath) -> Data:
    if not isinstance(data, dict):
        return data
    step, *rest = path
    if not rest:
        return {name: value for name, value in data.items() if name != step}
    return {name: _pruned(value, tuple(rest)) if name == step else value for name, value in data.items()}


def _readable(file: ConfigFile, name: str) -> Node | None:
    if file.fatal:
        raise PaictlError("is not readable as YAML", where=name, hint="run: paictl config validate")
    return file.root


def _ended(file: ConfigFile) -> ConfigFile:
    """The file with a line end at its end, so that lines can follow."""
    return file if not file.text or file.text.endswith("\n") else file.with_text(file.text + "\n")


def _data(node: Node | None) -> Data:
    return None if node is None else to_data(node)


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag == "null"


def _canonical(data: Data) -> str:
    """A text that two values share iff they are the same, types included (Python holds that ``True == 1``)."""
    return json.dumps(data, sort_keys=True)
