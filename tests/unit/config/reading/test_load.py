"""From paths to bundles of documents, whatever stands at these paths."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import Loaded, load, load_bytes, load_memory
from paictl.config.reading.source import place_of
from paictl.config.reading.yamltree import IssueKind
from paictl.errors import PaictlError
from tests.unit.config.permissions import as_nobody

HIVED = b"physicalCluster: {cellTypes: {}, physicalCells: []}\nvirtualClusters: {}\n"
JOB = b"protocolVersion: 2\nname: x\ntype: job\ntaskRoles: {}\n"


def paths(loaded: Loaded) -> list[str]:
    return [Path(document.path).name for document in loaded.documents]


def test_a_folder_is_one_bundle_and_skips_what_is_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "b.yaml").write_bytes(HIVED)
    (tmp_path / "sub" / "a.yml").write_bytes(JOB)
    (tmp_path / "notes.yaml").write_bytes(b"colour: blue\n")
    (tmp_path / "broken.yaml").write_bytes(b"a: [\n")
    (tmp_path / "readme.md").write_bytes(b"a: [\n")
    (tmp_path / ".hidden.yaml").write_bytes(JOB)
    (tmp_path / ".git" / "c.yaml").write_bytes(JOB)
    loaded = load([str(tmp_path)])
    assert paths(loaded) == ["b.yaml", "a.yml"]
    assert [Path(path).name for path in loaded.skipped] == ["broken.yaml", "notes.yaml"]
    assert len(loaded.bundles) == 1


def test_one_unreadable_file_keeps_no_other_from_being_read(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "d.yaml").write_bytes(JOB)
    (tmp_path / "hivedscheduler.yaml").write_bytes(HIVED)
    with (tmp_path / "layout.yaml").open("wb") as handle:
        handle.truncate(100 * 1024 * 1024)
    (tmp_path / "other.yaml").symlink_to(tmp_path / "nowhere")
    loaded = load([str(tmp_path), str(tmp_path / "none.yaml")])
    assert paths(loaded) == ["d.yaml", "hivedscheduler.yaml"]
    assert [Path(str(failure.where)).name for failure in loaded.failures] == ["config.yaml", "layout.yaml", "none.yaml"]
    assert [Path(path).name for path in loaded.skipped] == ["other.yaml"]


def test_a_pipe_or_socket_in_a_folder_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "a.yaml").write_bytes(JOB)
    loaded = load([str(tmp_path)])
    assert paths(loaded) == ["a.yaml"]
    assert not loaded.failures


def test_a_folder_that_may_not_be_entered_is_a_failure(public_folder: Path) -> None:
    tmp_path = public_folder
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "x.yaml").write_bytes(JOB)
    (tmp_path / "a.yaml").write_bytes(JOB)
    (tmp_path / "closed").chmod(0)
    with as_nobody():
        loaded = load([str(tmp_path), str(tmp_path / "closed" / "x.yaml")])
    (tmp_path / "closed").chmod(0o755)
    assert paths(loaded) == ["a.yaml"]
    assert len(loaded.failures) == 2
    assert all("cannot be read" in failure.message for failure in loaded.failures)


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "services-configuration.yaml").symlink_to(tmp_path / "services-configuration.yaml")
    (tmp_path / "a.yaml").write_bytes(JOB)
    loaded = load([str(tmp_path)])
    assert paths(loaded) == ["a.yaml"]
    assert len(loaded.failures) == 1


def test_a_file_named_twice_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_bytes(HIVED)
    Path("link.yaml").symlink_to("a.yaml")
    loaded = load([".", "a.yaml", "./a.yaml", str(tmp_path), "link.yaml"])
    assert len(list(loaded.documents)) == 1
    assert not loaded.failures


@pytest.mark.parametrize("path", ["x" * 5000, "a\0b", "/proc/self/mem", "/dev/zero"])
def test_paths_that_nothing_can_stand_at_are_failures(path: str) -> None:
    loaded = load([path])
    assert not list(loaded.documents)
    assert len(loaded.failures) == 1


def test_file_names_of_any_bytes_are_read(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9\x1b[2J\n.yaml")
    (tmp_path / name).write_bytes(JOB)
    assert paths(load([str(tmp_path)])) == [name]


def test_standard_input_is_a_file_called_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(JOB)

    monkeypatch.setattr("sys.stdin", Stdin)
    (document,) = load(["-", "-"]).documents
    assert (document.path, document.kind) == ("<stdin>", FileKind.JOB)


def test_standard_input_has_the_same_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"x" * 20)

    monkeypatch.setattr("sys.stdin", Stdin)
    monkeypatch.setattr("paictl.config.reading.source.MAX_BYTES", 10)
    assert "more than 10" in load(["-"]).failures[0].message


@pytest.mark.parametrize(
    ("data", "trouble", "place"),
    [
        (b"\xef\xbb\xbfa: 1\n", IssueKind.BYTE_ORDER_MARK, "1:1"),
        ("a: 1\n".encode("utf-16"), IssueKind.ENCODING, "1:1"),
        (b"\xfe\xff\x00a", IssueKind.ENCODING, "1:1"),
        ("a: 1\n".encode("utf-32"), IssueKind.ENCODING, "1:1"),
        ("a: 1\n".encode("utf-16-le"), IssueKind.SYNTAX, "1:2"),
        ("é: ".encode() + b"\xe9\n", IssueKind.ENCODING, "1:4"),
        (b"a: 1\nb: \xed\xa0\x80\n", IssueKind.ENCODING, "2:4"),
        (b"\xef\xbb\xbfa: \xff", IssueKind.ENCODING, "1:4"),
        (b"\xef\xbb\xbf\xef\xbb\xbfa: [", IssueKind.BYTE_ORDER_MARK, "1:1"),
    ],
)
def test_encodings(data: bytes, trouble: IssueKind, place: str) -> None:
    issue = load_bytes("x.yaml", data)[0].issues[0]
    assert issue.kind is trouble
    assert str(place_of(issue.at)) == f"x.yaml:{place}"


def test_the_mark_is_no_part_of_the_text_but_known() -> None:
    (document,) = load_bytes("job.yaml", b"\xef\xbb\xbf" + JOB)
    assert document.source.text == JOB.decode()
    assert document.source.marks
    assert not load_bytes("job.yaml", JOB)[0].source.marks


def test_the_hived_section_of_services_is_a_document_of_its_own() -> None:
    data = b"cluster: {}\nhivedscheduler:\n  config: |\n    physicalCluster: {}\n    virtualClusters: {}\n"
    host, inner = load_bytes("services-configuration.yaml", data)
    assert (host.kind, inner.kind) == (FileKind.SERVICES, FileKind.HIVED)
    assert inner.host is host
    assert inner.path == "services-configuration.yaml"
    for empty in (b'""', b"", b"[]", b"12", b"|\n\n"):
        assert len(load_bytes("services-configuration.yaml", b"hivedscheduler:\n  config: " + empty + b"\n")) == 1


def test_the_given_kind_wins_over_name_and_content() -> None:
    assert load_bytes("master.csv", JOB, FileKind.JOB)[0].kind is FileKind.JOB
    (document,) = load_bytes("job.yaml", b"a,1\n", FileKind.WORKER_CSV)
    assert len(document.rows) == 1


def test_memory_is_one_bundle() -> None:
    loaded = load_memory({"a.yaml": JOB, "master.csv": b"a,10.0.0.1\n"})
    assert [document.kind for document in loaded.bundles[0].documents] == [FileKind.JOB, FileKind.MASTER_CSV]


def test_a_file_that_holds_too_much_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.config.reading.yamltree.MAX_VALUES", 10)
    monkeypatch.setattr("paictl.config.reading.load.MAX_ROWS", 3)
    with pytest.raises(PaictlError, match="has more than 600,000 values"):
        load_bytes("x.yaml", b"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]\n")
    assert load_bytes("x.yaml", b"[1, 2, 3, 4, 5, 6, 7, 8, 9]\n")[0].root is not None
    with pytest.raises(PaictlError, match="has more than 3 lines"):
        load_bytes("worker.csv", b"a,10.0.0.1\n" * 4)


def test_a_link_to_a_pipe_in_a_folder_is_nobodys_configuration(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "x.yaml").symlink_to(tmp_path / "pipe")
    (folder / "hivedscheduler.yaml").symlink_to(tmp_path / "nothing")
    loaded = load([str(folder)])
    assert [failure.where for failure in loaded.failures] == [str(folder / "hivedscheduler.yaml")]
    assert list(loaded.documents) == []
