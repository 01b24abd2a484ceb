"""Repairs: what is edited is edited, all the rest is byte for byte as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.config.linting import fix as fix_module
from paictl.config.linting.fix import Repair, apply, fix, same_but_for
from paictl.config.linting.rule import Rule
from paictl.config.linting.rules import all_rules
from paictl.config.linting.validate import Choice, validate
from paictl.config.reading.document import Document
from paictl.config.reading.load import load_bytes, load_memory
from paictl.config.reading.nodes import ScalarNode
from paictl.config.reading.problem import Edit, Finding, Replacement, Severity, replacements
from paictl.config.reading.source import Source, Span
from tests.unit.config.cases import all_cases

HIVED = """# the cluster   of the lab
physicalCluster:
  cellTypes:
    NODE: {childCellType: GPU,   childCellNumber: 4, isNodeLevel: true}  # four each
  physicalCells:
  - cellType: NODE
    cellAddress: 'worker1'

virtualClusters:
  default:
    virtualCells:
    - {cellType: NODE, cellNumber: 1}
"""

BREAKS: list[tuple[str, str]] = [
    ("childCellNumber: 4", 'childCellNumber: "4"'),
    ("childCellNumber: 4", "childCellNumber: '4'"),
    ("isNodeLevel", "isNodelevel"),
    ("cellAddress", "celAddress"),
    ("virtualCells", "virtualCell"),
    ("cellNumber: 1", "cellnumber: 1"),
    ("physicalCells", "physical_cells"),
]
"""(good, broken) pieces whose repair gives back the good one."""


def repair(text: str | bytes, name: str = "hivedscheduler.yaml", choice: Choice | None = None) -> Repair:
    data = text if isinstance(text, bytes) else text.encode()
    return fix(load_memory({name: data}), choice)


def after(text: str | bytes, name: str = "hivedscheduler.yaml") -> bytes:
    (file,) = repair(text, name).files
    return file.after


@pytest.mark.parametrize(("good", "broken"), BREAKS)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_repair_gives_back_the_very_bytes(good: str, broken: str, line_end: str, mark: str) -> None:
    text = HIVED.replace("\n", line_end)
    assert after(mark + text.replace(good, broken, 1)) == text.encode()


@settings(max_examples=60, deadline=None)
@given(st.sets(st.sampled_from(BREAKS), min_size=1), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_any_mix_of_mistakes_is_repaired_at_once(breaks: set[tuple[str, str]], line_end: str, mark: bool) -> None:
    text = HIVED
    for good, broken in breaks:
        text = text.replace(good, broken, 1)
    result = repair((("\ufeff" if mark else "") + text).replace("\n", line_end))
    (file,) = result.files
    assert file.after == HIVED.replace("\n", line_end).encode()
    assert len(file.repaired) >= 1
    assert [p.rule for p in result.report.problems] == []


EMBEDDED = (
    "cluster: {}\nrest-server: {default-pai-admin-username: a-name, default-pai-admin-password: not-a-default-1}\n"
)


FLOW = (
    "{physicalCluster: {cellTypes: {NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}}, "
    "physicalCells: [{cellType: NODE, cellAddress: 'worker1'}]}, "
    "virtualClusters: {default: {virtualCells: [{cellType: NODE, cellNumber: 1}]}}}"
)


def services(style: str) -> str:
    import json

    config = HIVED.replace("'", "").replace("  #", " #")
    if style == "|":
        body = "|\n" + "".join(f"    {line}\n" if line else "\n" for line in config.splitlines())
    elif style == '"':
        body = json.dumps(config) + "\n"
    else:
        body = "'" + FLOW.replace("'", "''") + "'\n"
    return EMBEDDED + "hivedscheduler:\n  config: " + body


@pytest.mark.parametrize("style", ["|", '"', "'"])
@pytest.mark.parametrize(("good", "broken"), [pair for pair in BREAKS if '"' not in pair[1] and "'" not in pair[1]])
def test_a_text_inside_of_a_string_is_repaired_in_the_outer_file(style: str, good: str, broken: str) -> None:
    text = services(style)
    assert good in text
    choice = Choice(select=("SHP",))
    (file,) = repair(text.replace(good, broken, 1), "services-configuration.yaml", choice).files
    assert file.after == text.encode()


def test_quotes_in_an_embedded_text_are_removed_or_the_text_is_left_alone() -> None:
    choice = Choice(select=("SHP",))
    name = "services-configuration.yaml"
    text = services("|")
    (file,) = repair(text.replace("childCellNumber: 4", 'childCellNumber: "4"'), name, choice).files
    assert file.after == text.encode()
    escaped = services('"').replace("childCellNumber: 4", 'childCellNumber: \\"4\\"')
    (file,) = repair(escaped, name, choice).files
    assert file.after == escaped.encode(), "an escape is two characters, the edit counts one"


def test_quoting_inside_of_a_quoted_string_is_escaped() -> None:
    choice, name = Choice(select=("SHP",)), "services-configuration.yaml"
    for style, expected in (
        ("|", 'childCellType: "12"'),
        ("'", 'childCellType: "12"'),
        ('"', 'childCellType: \\"12\\"'),
    ):
        text = services(style).replace("childCellType: GPU", "childCellType: 12", 1)
        (file,) = repair(text, name, choice).files
        assert expected in file.after.decode()


def test_an_anchor_survives_the_repair_of_its_value() -> None:
    text = HIVED.replace("childCellNumber: 4", 'childCellNumber: &four "4"').replace(
        "cellNumber: 1}", "cellNumber: *four}"
    )
    assert b"childCellNumber: &four 4," in after(text)


def test_two_misspelt_keys_do_not_become_the_same_key() -> None:
    text = HIVED.replace("cellNumber: 1", "celNumber: 1, cellNumbr: 2")
    result = repair(text)
    assert result.files[0].after.decode() == HIVED.replace("cellNumber: 1", "cellNumber: 1, cellNumbr: 2")
    assert [problem.rule for problem in result.report.problems] == ["SHP104"]


def test_silenced_and_unselected_problems_are_left_alone() -> None:
    text = HIVED.replace("childCellNumber: 4", 'childCellNumber: "4"').replace("# four each", "# paictl: ignore=SHP101")
    assert after(text) == text.encode()
    unselected = HIVED.replace("childCellNumber: 4", 'childCellNumber: "4"')
    assert not repair(unselected, choice=Choice(ignore=("SHP101",))).changed


def test_files_that_are_not_utf_8_are_left_alone() -> None:
    for data in (HIVED.encode("utf-16"), b"\xef\xbb\xbf" + HIVED.encode() + b"# \xff\n"):
        (file,) = repair(data).files
        assert file.before == file.after == data


def test_a_host_list_loses_its_mark_and_keeps_the_rest() -> None:
    data = b"worker1,10.0.0.2\r\nworker2,10.0.0.3\r\n"
    (file,) = repair(b"\xef\xbb\xbf" + data, "worker.csv", Choice(select=("TXT",))).files
    assert file.after == data


# --- properties over everything the rules know ------------------------------------------------------------------------

EVERYTHING = [
    pytest.param(files, id=name)
    for name, files in [
        *((case.name, case.files) for case in all_cases()),
        *((f"{rule.id} example", rule.manual.fails) for rule in all_rules()),
    ]
]


@pytest.mark.parametrize("files", EVERYTHING)
def test_repairs_hold_and_touch_nothing_else(files: dict[str, bytes]) -> None:
    loaded = load_memory(files)
    result = fix(loaded)
    again = fix(load_memory(files | {file.path: file.after for file in result.files}))
    assert not again.changed
    assert [str(p.place) for p in again.report.problems] == [str(p.place) for p in result.report.problems]
    for file in result.files:
        assert file.before == files[file.path]
        if not file.repaired:
            assert file.after == file.before
    fatal = {document.path for document in loaded.documents if document.fatal}
    still = {d.path for f in result.files for d in load_bytes(f.path, f.after) if d.fatal}
    assert still <= fatal


def edit_rule(monkeypatch: pytest.MonkeyPatch, edits: Callable[[Document], list[tuple[int, int, str]]]) -> None:
    """Let one of the rules offer some edits, one finding each, and no other rule find anything."""

    def check(document: Document) -> list[Finding]:
        source = document.source
        spans = [(Span(source, start, end), text) for start, end, text in edits(document)]
        return [Finding(at, "m", None, (Edit(at, text),)) for at, text in spans]

    instead = Rule("TXT001", "syntax-error", Severity.ERROR, check)
    monkeypatch.setattr("paictl.config.linting.validate.rules_on", lambda _: (instead,))
    monkeypatch.setattr("paictl.config.linting.validate.rules_across", lambda _: ())


@pytest.mark.parametrize(
    ("find", "text"),
    [
        ("4", "4} #"),  # cuts off the rest
        ("4", '"'),  # breaks the syntax
        ("  physicalCells:", "    physicalCells:"),  # nests what follows
        ("  - cellType: NODE\n", ""),  # nests an item's keys elsewhere
        ("virtualClusters:\n  default:", "virtualClusters:\n default:"),
    ],
)
def test_an_edit_that_would_change_more_than_it_says_is_refused(
    monkeypatch: pytest.MonkeyPatch, find: str, text: str
) -> None:
    at = HIVED.index(find)

    def edits(document: Document) -> list[tuple[int, int, str]]:
        if document.source.text != HIVED:
            return []
        return [(at, at + len(find), text)]

    edit_rule(monkeypatch, edits)
    changed = repair(HIVED).changed
    allowed = text.startswith(" default") or "\n default" in text  # less indentation all the same is sound
    assert bool(changed) is allowed


def test_of_overlapping_repairs_the_first_wins_and_the_other_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def edits(document: Document) -> list[tuple[int, int, str]]:
        text = document.source.text
        found = []
        if "worker1" in text:
            found = [(text.index("worker1"), text.index("worker1") + 7, "wXrker1")]
            found.append((text.index("orker1"), text.index("orker1") + 1, "Y"))
        if "wXrker1" in text:
            found.append((text.index("wXrker1"), text.index("wXrker1") + 1, "W"))
        return found

    edit_rule(monkeypatch, edits)
    (file,) = repair(HIVED).files
    assert b"WXrker1" in file.after
    assert len(file.repaired) == 2


def test_one_bad_repair_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def edits(document: Document) -> list[tuple[int, int, str]]:
        text = document.source.text
        found = [(text.index("true"), text.index("true") + 4, "true, bad: [")]
        if "GPU" in text:
            found.append((text.index("GPU"), text.index("GPU") + 3, "DEV"))
        if "worker1" in text:
            found.append((text.index("worker1"), text.index("worker1") + 7, "w1"))
        return found

    edit_rule(monkeypatch, edits)
    (file,) = repair(HIVED).files
    assert file.after == HIVED.replace("GPU", "DEV").replace("worker1", "w1").encode()


def test_rules_that_undo_each_other_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def edits(document: Document) -> list[tuple[int, int, str]]:
        text = document.source.text
        word, other = ("worker1", "worker2") if "worker1" in text else ("worker2", "worker1")
        return [(text.index(word), text.index(word) + 7, other)]

    edit_rule(monkeypatch, edits)
    assert len(repair(HIVED).files[0].repaired) == fix_module.MAX_ROUNDS


def test_a_line_end_in_an_edit_is_that_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def edits(document: Document) -> list[tuple[int, int, str]]:
        text = document.source.text
        return [] if "a note" in text else [(0, 0, "# a note\n")]

    edit_rule(monkeypatch, edits)
    assert after(HIVED.replace("\n", "\r\n")) == ("# a note\n" + HIVED).replace("\n", "\r\n").encode()


@settings(deadline=None)
@given(st.text(alphabet="ab\n:é", max_size=30), st.data())
def test_text_outside_of_edits_is_kept(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    edits = [Replacement(start, end, "XX") for start, end in zip(cuts[::2], cuts[1::2], strict=False)]
    expected, done = "", 0
    for edit in edits:
        expected += text[done : edit.start] + "XX"
        done = edit.end
    assert apply(Source("x", text), reversed(edits)) == expected + text[done:]
    assert apply(Source("x", text, marks=1), edits) == "\ufeff" + expected + text[done:]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_soundness_tells_any_other_change(data: st.DataObject) -> None:
    """A change of one character anywhere but in the edited scalar is noticed unless the data stays the same."""
    before = load_bytes("hivedscheduler.yaml", HIVED.encode())
    node = before[0].top.at("physicalCluster", "cellTypes", "NODE").scalar("childCellNumber")
    assert isinstance(node, ScalarNode)
    at = data.draw(st.integers(0, len(HIVED) - 1))
    character = data.draw(st.sampled_from("xX1 :#{"))
    changed = HIVED[:at] + character + HIVED[at + 1 :]
    documents = load_bytes("hivedscheduler.yaml", changed.encode(), before[0].kind)
    sound = same_but_for(before, documents, [Replacement(node.start, node.end, "4")])
    if sound and not node.start - 1 <= at <= node.end:
        assert documents[0].data == before[0].data


def test_the_diff_can_be_read_and_cannot_harm() -> None:
    broken = HIVED.replace("childCellNumber: 4", 'childCellNumber: "4"')
    (file,) = repair(broken, "a\x1b/hivedscheduler.yaml").files
    lines = list(file.diff())
    assert lines[0] == "--- a\\x1b/hivedscheduler.yaml (as it is)"
    assert [line for line in lines[2:] if line.startswith(("-", "+"))] == [
        '-    NODE: {childCellType: GPU,   childCellNumber: "4", isNodeLevel: true}  # four each',
        "+    NODE: {childCellType: GPU,   childCellNumber: 4, isNodeLevel: true}  # four each",
    ]
    (unchanged,) = repair(HIVED).files
    assert list(unchanged.diff()) == []


def test_edits_that_cannot_be_carried_to_the_file_are_no_edits() -> None:
    text = services("|")
    host, inner = load_bytes("services-configuration.yaml", text.encode())
    assert inner.host is host
    report = validate(load_memory({"services-configuration.yaml": text.replace("isNodeLevel", "isNodelevel").encode()}))
    (problem,) = [problem for problem in report.problems if problem.rule == "SHP104"]
    (made,) = replacements(problem)
    assert made.text == "isNodeLevel"
    lines = Edit(Span(inner.source, 0, inner.source.text.index("\n") + 1), "")
    from dataclasses import replace

    assert replacements(replace(problem, edits=(lines,))) == ()
    assert replacements(replace(problem, edits=(*problem.edits, lines))) == ()
