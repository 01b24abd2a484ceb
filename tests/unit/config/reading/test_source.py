"""Offsets, lines and columns; reading files that do not want to be read."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.config.reading.source import MAX_BYTES, Source, Span, place_of, read_bytes
from paictl.errors import PaictlError
from tests.unit.config.permissions import as_nobody

TEXTS = st.text(alphabet="ab\n\r\té中😀\u2028\x85\x0b", max_size=60)


@given(TEXTS)
def test_every_offset_has_the_line_and_column_an_editor_shows(text: str) -> None:
    source = Source("x", text)
    line, column = 1, 1
    for offset, character in enumerate(text):
        assert source.position(offset) == (line, column)
        if character == "\n" or (character == "\r" and text[offset + 1 : offset + 2] != "\n"):
            line, column = line + 1, 1
        else:
            column += 1
    assert source.position(len(text)) == (line, column)
    assert len(source.line_starts) == line


@given(TEXTS)
def test_lines_put_together_are_the_text_without_line_ends(text: str) -> None:
    source = Source("x", text)
    lines = [source.line(number) for number in range(1, len(source.line_starts) + 1)]
    assert "".join(lines) == text.replace("\r", "").replace("\n", "")


def test_lines_and_offsets_beyond_the_text_count_as_its_end() -> None:
    source = Source("x", "ab\nc")
    assert source.line(0) == source.line(3) == ""
    assert source.position(99) == (2, 2)
    assert place_of(Span(source, -1, 0)).line == 1
    assert place_of(Span(source, 50, 40)) == place_of(Span(source, 4, 4))


def test_the_end_of_an_embedded_span_stays_in_the_line_of_its_last_character() -> None:
    outer = Source("x", "k: |\n  ab\n  cd\n")
    inner = Source("x", "ab\ncd\n", outer, ((0, 7), (3, 12)), style="|")
    assert str(place_of(Span(inner, 0, 3))) == "x:2:3"
    place = place_of(Span(inner, 0, 2))
    assert (place.end_line, place.end_column) == (2, 5)
    assert inner.span_to_root(3, 3) == (12, 12)
    assert inner.root is outer


def test_embedded_offsets_never_leave_the_outer_text() -> None:
    outer = Source("x", "abc")
    inner = Source("x", "a" * 50, outer, ((0, 1),))
    assert inner.to_root(49) == 3


def unreadable(path: Path | str) -> PaictlError:
    with pytest.raises(PaictlError) as caught:
        read_bytes(str(path))
    assert caught.value.where == str(path)
    return caught.value


def test_a_sparse_file_of_100_mb_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    with path.open("wb") as handle:
        handle.truncate(100 * 1024 * 1024)
    error = unreadable(path)
    assert "104,857,600 bytes" in error.message
    assert f"{MAX_BYTES:,}" in error.message
    assert error.hint


def test_a_file_of_exactly_the_limit_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.config.reading.source.MAX_BYTES", 4)
    path = tmp_path / "x.yaml"
    path.write_bytes(b"1234")
    assert read_bytes(str(path)) == b"1234"
    path.write_bytes(b"12345")
    assert "5 bytes" in unreadable(path).message


def test_folders_missing_files_and_devices_are_named(tmp_path: Path) -> None:
    assert unreadable(tmp_path).message == "is a folder, not a file"
    assert unreadable(tmp_path / "none.yaml").message == "no such file or folder"
    assert unreadable("/dev/null").message == "not a regular file"
    assert "cannot be read" in unreadable("a\0b").message
    assert "cannot be read" in unreadable("x" * 5000).message


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("job-0.yml", "did you mean 'job-0.yaml'?"),
        ("job0.yaml", "did you mean 'job-0.yaml'?"),
        ("layout.csv", "check the path"),
        ("nosuch/job-0.yaml", "check the path"),
    ],
)
def test_a_file_with_a_typo_in_its_name_is_found_beside(tmp_path: Path, given: str, hint: str) -> None:
    (tmp_path / "job-0.yaml").touch()
    assert str(unreadable(tmp_path / given).hint) == hint


def test_a_file_whose_reading_fails_midway_is_named() -> None:
    path = Path("/proc/self/mem")  # opens, then answers EIO
    if not path.exists():
        pytest.skip("no /proc here")
    assert "cannot be read" in unreadable(path).message


def test_a_socket_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s.yaml")
        assert "cannot be read" in unreadable("s.yaml").message


def test_a_file_without_permission_is_named(public_folder: Path) -> None:
    path = public_folder / "secret.yaml"
    path.write_text("a: 1\n")
    path.chmod(0)
    with as_nobody():
        assert "cannot be read: Permission denied" in unreadable(path).message


def test_a_pipe_is_read_to_its_end_and_refused_over_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.config.reading.source.MAX_BYTES", 10)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for data, fits in ((b"a: 1\n", True), (b"x" * 11, False)):
        writer = threading.Thread(target=pipe.write_bytes, args=(data,))
        writer.start()
        if fits:
            assert read_bytes(str(pipe)) == data
        else:
            assert "more than 10" in unreadable(pipe).message
        writer.join()
