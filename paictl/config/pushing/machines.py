"""A machine put into, or struck off, the files of a cluster: layout, HiveD's physical cells, list of workers.

Lines are spliced, so that everything else stays as somebody wrote it; what comes out is read again and compared with
what was meant, and files that are written in a way that this does not know are refused, never guessed at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

from paictl.config.models.hived import hived
from paictl.config.models.hived_cells import Cell
from paictl.config.models.layout import MachineEntry, layout_of
from paictl.config.pushing.yamltext import line_end, line_start
from paictl.config.reading.document import Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_memory
from paictl.config.reading.nodes import MappingNode, Node, ScalarNode, SequenceNode, to_data
from paictl.config.reading.values import resolve
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text

Files = Mapping[str, str]
Change = Callable[[Any], None]
"""What happens to the values of a document: the measure for what splicing makes of its text."""
_HINT = "change the files yourself: paictl config pull -o DIR, then paictl config push -p DIR"


@frozen
class _Splice:
    """Characters of a file to be replaced."""

    start: int
    end: int
    text: str


def without_machine(files: Files, name: str) -> dict[str, str]:
    """The files without a machine; they come back as they are where none of them names it.

    Raises `PaictlError` where its cell cannot go without changing what other cells are.
    """
    made = dict(files)
    for document in _documents(made, FileKind.LAYOUT):
        entry = _entry(document, name)
        if entry is not None:
            cut = [_lines_of(document, entry.spec)]
            made = _edited(made, document, cut, lambda data: _drop(data["machine-list"], "hostname", name))
    for document in _documents(made, FileKind.HIVED):
        cell = _cell(document, name)
        if cell is not None:
            made = _without_cell(made, document, cell)
    for document in _documents(made, FileKind.WORKER_CSV):
        made[document.path] = csv_without(made[document.path], name)
    return made


def with_machine(files: Files, name: str, address: str, like: str) -> dict[str, str]:
    """The files with another machine that has what `like` has, in a cell beside that of `like`.

    Raises `PaictlError` if a machine of that name or address is there, or `like` has no cell that can have a neighbour.
    """
    made = dict(files)
    for document in _documents(made, FileKind.LAYOUT):
        made = _with_entry(made, document, (name, address), like)
    for document in _documents(made, FileKind.HIVED):
        if _cell(document, name) is not None:
            continue
        cell = _cell(document, like)
        if cell is not None:
            made = _with_cell(made, document, cell, name)
    for document in _documents(made, FileKind.WORKER_CSV):
        made[document.path] = csv_with(made[document.path], name, address)
    return made


def csv_without(rows: str, name: str) -> str:
    """A list of hosts without one; all other lines as they are."""
    return "".join(line for line in rows.splitlines(keepends=True) if _host(line) != name)


def csv_with(rows: str, name: str, address: str) -> str:
    """A list of hosts with one more at its end, unless it is there."""
    if any(_host(line) == name for line in rows.splitlines()):
        return rows
    return f"{rows}{'' if rows.endswith(chr(10)) or not rows else chr(10)}{name},{address}\n"


def _host(line: str) -> str:
    return line.partition(",")[0].strip().strip('"')


def _documents(files: Files, kind: FileKind) -> list[Document]:
    loaded = load_memory(files)
    documents = [document for document in loaded.documents if document.kind is kind]
    for document in documents:
        if document.fatal:
            raise PaictlError("cannot be read", where=document.path, hint="see: paictl config validate")
    return documents


def _entry(document: Document, name: str) -> MachineEntry | None:
    return next((machine for machine in layout_of(document).machines if machine.key == name), None)


def _cell(document: Document, name: str) -> Cell | None:
    return next((node for node in hived(document).nodes if node.address is not None and node.name == name), None)


# --- HiveD's cells


def _without_cell(files: dict[str, str], document: Document, cell: Cell) -> dict[str, str]:
    """Strike off a cell, and those above it that have no other; its type then has one child less."""
    target = cell
    while target.parent is not None and target.parent.listed == 1:
        target = target.parent
    if target.parent is None and len(hived(document).tops) == 1:
        raise PaictlError(text("{name} is the last machine in the HiveD configuration", name=cell.name), hint=_HINT)
    splices = [_lines_of(document, target.spec)]
    if target.parent is None:
        return _edited(files, document, splices, lambda data: _drop_top(data, cell.name))
    number, kind = _child_number(document, target.parent, cell.name)
    splices.append(_replaced(number, str(target.parent.listed - 1)))

    def change(data: Any) -> None:
        _drop_child(data["physicalCluster"]["physicalCells"], cell.name)
        data["physicalCluster"]["cellTypes"][kind]["childCellNumber"] -= 1

    return _edited(files, document, splices, change)


def _with_cell(files: dict[str, str], document: Document, like: Cell, name: str) -> dict[str, str]:
    known = {"cellAddress"} if like.parent is not None else {"cellAddress", "cellType"}
    extra = sorted(set(like.spec.entries) - known)
    if extra or like.address is None:
        message = text("the cell of {like} sets {keys} itself", like=like.name, keys=", ".join(extra))
        raise PaictlError(message, where=document.path, hint=_HINT)
    own = _lines_of(document, like.spec)
    whole = document.source.root.text
    at, _ = document.source.span_to_root(like.address.start, like.address.end)
    _, end = document.source.span_to_root(like.address.start, like.address.end)
    copy = whole[own.start : at] + _quoted(name) + whole[end : own.end]
    last = like if like.parent is None else like.parent.children[-1]
    behind = _lines_of(document, last.spec).end
    splices = [_Splice(behind, behind, _closed(whole, behind) + copy)]
    if like.parent is None:
        return _edited(files, document, splices, lambda data: _copy_top(data, like.name, name))
    number, kind = _child_number(document, like.parent, like.name)
    splices.append(_replaced(number, str(like.parent.listed + 1)))

    def change(data: Any) -> None:
        _append_child(data["physicalCluster"]["physicalCells"], like.name, name)
        data["physicalCluster"]["cellTypes"][kind]["childCellNumber"] += 1

    return _edited(files, document, splices, change)


def _child_number(document: Document, parent: Cell, name: str) -> tuple[ScalarNode, str]:
    """Where the number of children of a cell's type stands; refused where other cells are of that type, too."""
    alike = [cell for cell in hived(document).cells if cell.type == parent.type]
    number = document.top.at("physicalCluster", "cellTypes", parent.type).scalar("childCellNumber")
    if len(alike) > 1 or number is None or parent.listed != number.value:
        message = text(
            "{name} is in a cell of type {kind}, and all cells of a type must have the same number of children",
            name=name,
            kind=parent.type,
        )
        raise PaictlError(message, where=document.path, hint=_HINT)
    if any(child.address is None for child in parent.children):
        message = text("removing {name} would renumber its sibling cells, which have no cellAddress", name=name)
        raise PaictlError(message, where=document.path, hint=_HINT)
    return number, parent.type


def _drop(items: list[Any], key: str, name: str) -> None:
    items[:] = [item for item in items if str(item.get(key, "")).strip().lower() != name]


def _holds(item: Any, name: str) -> bool:
    below = item.get("cellChildren") or []
    return str(item.get("cellAddress")) == name or any(_holds(child, name) for child in below)


def _drop_top(data: Any, name: str) -> None:
    tops = data["physicalCluster"]["physicalCells"]
    tops[:] = [top for top in tops if not _holds(top, name)]


def _copy_top(data: Any, like: str, name: str) -> None:
    tops = data["physicalCluster"]["physicalCells"]
    at = next(index for index, top in enumerate(tops) if _holds(top, like))
    tops.insert(at + 1, {**deepcopy(tops[at]), "cellAddress": name})


def _drop_child(items: list[Any], name: str) -> None:
    """Strike off the largest cell that holds nothing but a node, and has neighbours."""
    item = next(item for item in items if _holds(item, name))
    below = item["cellChildren"]
    branch = next(child for child in below if _holds(child, name))
    alone = branch
    while str(alone.get("cellAddress")) != name and len(alone.get("cellChildren") or []) == 1:
        alone = alone["cellChildren"][0]
    if str(alone.get("cellAddress")) == name:
        below.remove(branch)
    else:
        _drop_child(below, name)


def _append_child(items: list[Any], like: str, name: str) -> None:
    item = next(item for item in items if _holds(item, like))
    below = item["cellChildren"]
    if any(str(child.get("cellAddress")) == like for child in below):
        below.append({"cellAddress": name})
    else:
        _append_child(below, like, name)


# --- the layout


def _with_entry(files: dict[str, str], document: Document, machine: tuple[str, str], like: str) -> dict[str, str]:
    name, address = machine
    taken = [machine for machine in layout_of(document).machines if machine.address and machine.address.text == address]
    if any(entry.key != name for entry in taken):
        raise PaictlError(text("{address} is already the address of {name}", address=address, name=taken[0].key))
    if _entry(document, name) is not None:
        return files
    entry = _entry(document, like)
    if entry is None or entry.name is None or entry.address is None:
        raise PaictlError(text("no machine {like} in {path}", like=like, path=document.path), hint=_HINT)
    own = _lines_of(document, entry.spec)
    copy, whole = "", document.source.text
    at = own.start
    for scalar, new in sorted(((entry.name, name), (entry.address, address)), key=lambda pair: pair[0].start):
        copy += whole[at : scalar.start] + _quoted(new)
        at = scalar.end
    copy += whole[at : own.end]
    behind = _lines_of(document, list(layout_of(document).machines)[-1].spec).end

    def change(data: Any) -> None:
        items = data["machine-list"]
        original = next(item for item in items if str(item.get("hostname", "")).strip().lower() == like)
        items.append({**original, "hostname": name, "hostip": address})

    return _edited(files, document, [_Splice(behind, behind, _closed(whole, behind) + copy)], change)


# --- splicing


def _closed(whole: str, at: int) -> str:
    """The line end that is missing before a place where a line is to begin."""
    return "" if at == 0 or whole[at - 1] == "\n" else "\n"


def _quoted(word: str) -> str:
    """A host name or an address as YAML: in quotes where it would be read as anything else than a string."""
    return word if resolve(word)[0] == "str" else f'"{word}"'


def _last(node: Node) -> int:
    """Where the last value in a node ends; blocks themselves may reach into the lines behind them."""
    if isinstance(node, ScalarNode):
        return node.end
    below = (
        node.items if isinstance(node, SequenceNode) else [part for entry in node for part in (entry.key, entry.value)]
    )
    return max((_last(part) for part in below), default=node.end)


def _lines_of(document: Document, item: MappingNode) -> _Splice:
    """The lines of an item of a list, to be cut."""
    source, whole = document.source, document.source.root.text
    start, end = source.span_to_root(item.start, _last(item))
    return _Splice(line_start(whole, start), line_end(whole, max(end - 1, start)), "")


def _replaced(scalar: ScalarNode, new: str) -> _Splice:
    start, end = scalar.source.span_to_root(scalar.start, scalar.end)
    return _Splice(start, end, new)


def _edited(files: dict[str, str], document: Document, splices: Iterable[_Splice], change: Change) -> dict[str, str]:
    """The files with splices in the file of a document; raises `PaictlError` unless that does what `change` does."""
    made = files[document.path]
    for splice in sorted(splices, key=lambda splice: splice.start, reverse=True):
        made = made[: splice.start] + splice.text + made[splice.end :]
    wanted: Any = deepcopy(document.data)
    try:
        change(wanted)
        after = _documents({**files, document.path: made}, document.kind)
        fits = [
            to_data(edited.root) for edited in after if edited.path == document.path and edited.root is not None
        ] == [wanted]
    except (KeyError, TypeError, AttributeError, StopIteration, PaictlError):
        fits = False
    if not fits:
        message = "is written in a way that cannot be changed line by line"
        raise PaictlError(message, where=document.path, hint=_HINT)
    return {**files, document.path: made}
