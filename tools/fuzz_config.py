"""`make fuzz`: mutate configuration files and see that nothing but a report comes out.

Seeds are the files of the corpus beside the repository where it is there, our examples, the case files of the tests
and the examples of the rules. Each mutant goes through loading, all rules, every report format and repairing, in this
process. A failure is an exception, more than five seconds of CPU time, a place outside of the file, raw control
characters in a report, or a repair that breaks a file; it is printed with what repeats it (``--replay SEED:NUMBER``)
and saved.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from paictl.config.linting.fix import fix  # noqa: E402 - the checkout goes before an installed paictl
from paictl.config.linting.report import FORMATS, plain  # noqa: E402
from paictl.config.linting.rules import all_rules  # noqa: E402
from paictl.config.linting.validate import Report, validate  # noqa: E402
from paictl.config.reading.load import Loaded, load_memory  # noqa: E402
from paictl.config.reading.problem import Problem  # noqa: E402
from paictl.config.reading.source import printable, shows  # noqa: E402
from paictl.errors import PaictlError  # noqa: E402

SECONDS = 5.0
"""Longest CPU time for one mutant; a busy machine is no failure."""

Files = dict[str, bytes]
Mutation = Callable[[random.Random, bytes], bytes]

NASTY: tuple[bytes, ...] = (
    b"",
    b"null",
    b"~",
    b"yes",
    b"012",
    b"0x1F",
    b"0x" + b"f" * 6000,
    b"0b" + b"1" * 9000,
    b"9" * 5000,
    b"-1",
    b"1e400",
    b"1.0e+999",
    b".nan",
    b".inf",
    b"-.inf",
    b"12:30",
    b":".join([b"1"] * 4000),
    b"1:2:3.5",
    b"1_000",
    b"_",
    b"2001-01-01",
    b"2001-13-45T99:00:00Z",
    b"[]",
    b"{}",
    b"[[[[[]]]]]",
    b"[" * 70 + b"]" * 70,
    b"{a: " * 70,
    b"&a [*a]",
    b"&x {x: *x}",
    b"*nowhere",
    b"&a x",
    b"*a",
    b"{<<: *a}",
    b"{<<: [1, 2]}",
    b"<<: 1",
    b"!!int x",
    b"!!str 1",
    b"!!binary AAAA",
    b"!!python/object:os.system {}",
    b"!<tag:yaml.org,2002:int> 3",
    b"!foo bar",
    b"!!set {a, b}",
    b"? [a, b]\n: c",
    b"? {a: b}",
    b"\ttab",
    b"a\tb",
    b"\x00",
    b"\x1b[31mred\x1b[0m",
    b"\xff\xfe",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x92\xa9",
    "中文".encode(),
    "e\u0301".encode(),
    "\u202eabc".encode(),
    "\u2028".encode(),
    b"\xc2\x85",
    b"\xef\xbb\xbf",
    b"\xef\xbf\xbe",
    b'"\\ud800"',
    b'"\\x00\\e[2J\\u202e"',
    b"'it''s'",
    b'"a\\\n  b"',
    b"|\n  a\n b",
    b">-\n\n\n   x",
    b"|2\n    x",
    b"|+\n\n",
    b"---",
    b"...",
    b"%YAML 9.9\n---",
    b"# paictl: ignore=",
    b"# paictl: ignore-file=TXT",
    b"# paictl: ignore=NOPE001, HVD",
    b"a: b: c",
    b"'",
    b'"',
    b"{",
    b"}",
    b"]",
    b"- - - - x",
    b"=",
    b"<% $x %>",
    b"x" * 1_000_000,
    b" " * 100_000,
    b"a: 1\n" * 3000,
    b"- 1\n" * 3000,
    b"10.0.0.0/33",
    b"999.1.1.1",
    b"::1",
    b"-" * 300,
    b"64G",
    b"1.5Gi",
    b"%s%n",
)
"""Values that have broken parsers before."""


def seeds() -> list[Files]:
    """The files to start from; files that belong together stand in one dict."""
    found: list[Files] = [{name: data} for name, data in _folder_files(ROOT / "examples")]
    found += [dict(group) for group in _example_folders()]
    for rule in all_rules():
        found += [rule.manual.passes, rule.manual.fails]
    from tests.unit.config.cases import all_cases

    found += [case.files for case in all_cases()]
    corpus = Path(os.environ.get("PAICTL_SHARED", ROOT.parent / "shared")) / "corpus"
    found += [{name: data} for name, data in _folder_files(corpus)] * 3
    return [files for files in found if files]  # a folder of examples may hold no configuration


def _folder_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".yaml", ".yml", ".csv"):
            yield path.name, path.read_bytes()


def _example_folders() -> Iterator[Iterator[tuple[str, bytes]]]:
    return (_folder_files(folder) for folder in sorted((ROOT / "examples").iterdir()) if folder.is_dir())


# --- mutations --------------------------------------------------------------------------------------------------------


def flip_bits(rng: random.Random, data: bytes) -> bytes:
    """Change single bits."""
    changed = bytearray(data or b"x")
    for _ in range(rng.randint(1, 4)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(rng: random.Random, data: bytes) -> bytes:
    """Lose the end, as a full disk does, or a piece."""
    start = rng.randrange(len(data) + 1)
    return data[:start] + (b"" if rng.random() < 0.5 else data[rng.randrange(start, len(data) + 1) :])


def insert(rng: random.Random, data: bytes) -> bytes:
    """Put a nasty value anywhere."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(NASTY) + data[at:]


def shuffle_lines(rng: random.Random, data: bytes) -> bytes:
    """Drop, repeat or swap lines."""
    lines = data.splitlines(keepends=True) or [b""]
    for _ in range(rng.randint(1, 3)):
        one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(4):
            case 0:
                lines[one] = b""
            case 1:
                lines.insert(two, lines[one])
            case 2:
                lines[one], lines[two] = lines[two], lines[one]
            case _:
                lines.insert(two, rng.choice(NASTY) + b"\n")
    return b"".join(lines)


def indent(rng: random.Random, data: bytes) -> bytes:
    """Change the indentation of a few lines."""
    lines = data.splitlines(keepends=True) or [b""]
    first = rng.randrange(len(lines))
    for index in range(first, min(first + rng.randint(1, 6), len(lines))):
        line = lines[index]
        lines[index] = rng.choice([b"  " + line, b" " + line, b"\t" + line, line.lstrip(b" "), line[1:]])
    return b"".join(lines)


def replace_value(rng: random.Random, data: bytes) -> bytes:
    """Put a nasty value after a colon, dash or comma, in place of what stood there."""
    places = [index for index, byte in enumerate(data) if byte in b":,-[{"]
    if not places:
        return rng.choice(NASTY)
    start = rng.choice(places) + 1
    stop = start
    while stop < len(data) and data[stop] not in b",]}\n":
        stop += 1
    return data[:start] + b" " + rng.choice(NASTY) + data[stop:]


def replace_key(rng: random.Random, data: bytes) -> bytes:
    """Misspell or replace what stands before a colon."""
    places = [index for index, byte in enumerate(data) if byte == ord(":")]
    if not places:
        return data
    stop = start = rng.choice(places)
    while start > 0 and data[start - 1] not in b" {,\n":
        start -= 1
    key = bytearray(data[start:stop] or b"k")
    key[rng.randrange(len(key))] = rng.choice(b"abcxyzABC019_-. ")
    return data[:start] + (bytes(key) if rng.random() < 0.7 else rng.choice(NASTY)) + data[stop:]


def requote(rng: random.Random, data: bytes) -> bytes:
    """Put a value in quotes, or take its quotes away."""
    quotes = [index for index, byte in enumerate(data) if byte in b"'\""]
    if quotes and rng.random() < 0.5:
        at = rng.choice(quotes)
        return data[:at] + rng.choice([b"", b'"', b"'"]) + data[at + 1 :]
    lines = data.splitlines(keepends=True) or [b""]
    index = rng.randrange(len(lines))
    key, colon, value = lines[index].partition(b": ")
    lines[index] = key + colon + rng.choice([b'"%s"', b"'%s'", b"&a %s", b"!!str %s"]) % value.strip() + b"\n"
    return b"".join(lines)


def line_ends(rng: random.Random, data: bytes) -> bytes:
    """Write other line ends, a byte order mark, another encoding."""
    text = data.decode("utf-8", errors="replace")
    match rng.randrange(5):
        case 0:
            return data.replace(b"\n", b"\r\n")
        case 1:
            return data.replace(b"\n", b"\r")
        case 2:
            return b"\xef\xbb\xbf" + data
        case 3:
            return text.encode(rng.choice(["utf-16", "utf-16-le", "utf-32"]))
        case _:
            return data.replace(b"\n", b"\r\n", data.count(b"\n") // 2)


def alias(rng: random.Random, data: bytes) -> bytes:
    """Give a value a name and use it elsewhere."""
    lines = data.splitlines(keepends=True) or [b""]
    one, two = sorted((rng.randrange(len(lines)), rng.randrange(len(lines))))
    key, colon, value = lines[one].partition(b":")
    lines[one] = key + colon + b" &z" + (value if value.startswith((b" ", b"\n")) else b" " + value)
    key, colon, value = lines[two].partition(b":")
    lines[two] = rng.choice([key + colon + b" *z\n", b"*z : x\n", key[: len(key) - len(key.lstrip())] + b"<<: *z\n"])
    return b"".join(lines)


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    cut,
    insert,
    shuffle_lines,
    indent,
    replace_value,
    replace_value,
    replace_key,
    requote,
    line_ends,
    alias,
)


def mutant(rng: random.Random, pool: list[Files]) -> Files:
    """A copy of one of the seeds with one to four mutations, now and then with a piece of another one."""
    files = dict(rng.choice(pool))
    name = rng.choice(sorted(files))
    data = files[name]
    if rng.random() < 0.1:
        other = rng.choice(list(rng.choice(pool).values()))
        data = data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
    for _ in range(rng.choice([1, 1, 2, 4])):
        data = rng.choice(MUTATIONS)(rng, data)[:4_000_000]
    files[name] = data
    if rng.random() < 0.05:
        files[f"{name}\x1b[2J\udcff\u202e%,:.yaml"] = files.pop(name)
    return files


# --- what must hold ---------------------------------------------------------------------------------------------------


def examine(files: Files) -> None:
    """Raise `AssertionError`, or whatever our code raises, where something is wrong with a mutant."""
    loaded = load_memory(files)
    report = validate(loaded)
    for problem in report.problems:
        check_place(problem)
    check_formats(report)
    check_repair(loaded, report)


def check_place(problem: Problem) -> None:
    """A place lies in the file, its end not before its start, and the words are one printable line."""
    place, source = problem.place, problem.source
    assert source is not None
    assert 1 <= place.line <= len(source.line_starts), place
    assert 1 <= place.column <= len(source.line(place.line)) + 2, place
    assert (place.line, place.column) <= (place.end_line, place.end_column), place
    for words in (problem.message, problem.hint or ""):
        assert all(shows(character) for character in words), words
        assert not words.endswith(".") or words.endswith(tuple(_last_words(problem))), words


def _last_words(problem: Problem) -> Iterator[str]:
    """What the file itself says at the place: words that quote it may end with the full stop that it ends with."""
    assert problem.source is not None
    for part in problem.source.line(problem.place.line).replace(",", " ").split():
        if part.endswith("."):
            yield printable(part)


def check_formats(report: Report) -> None:
    """Every format can be written to a file or terminal and does nothing there."""
    failed = Report(report.problems, report.files, ("a\udcff",), (PaictlError("bad\x1b", where="a\x1b\udcff"),), 1)
    for one in (report, failed):
        for name, render in FORMATS.items():
            text = plain(render(one))
            text.encode("utf-8")
            raw = {character for character in set(text) if not shows(character)} - {"\n"}
            assert not raw, f"{name}: {raw}"


def check_repair(loaded: Loaded, report: Report) -> None:
    """A repaired file can be read, needs no repair any more, and has no new problem of its text."""
    repair = fix(loaded)
    if not repair.changed:
        return
    again = fix(load_memory({file.path: file.after for file in repair.files}))
    assert not again.changed, [problem.rule for file in again.changed for problem in file.repaired]
    before = [problem for problem in report.problems if problem.rule.startswith("TXT0")]
    after = [problem for problem in repair.report.problems if problem.rule.startswith("TXT0")]
    unread = {document.path for document in loaded.documents if document.fatal}
    assert len(after) <= len(before) or unread, [str(problem) for problem in after]


# --- running ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """A mutant that broke something."""

    name: str
    reason: str
    files: Files


class TooSlowError(Exception):
    """One mutant took longer than `SECONDS`."""


@cache
def _pool() -> list[Files]:
    return seeds()


def attempt(name: str) -> Failure | None:
    """Make and examine the mutant called ``SEED:NUMBER``."""
    files = mutant(random.Random(name), _pool())  # noqa: S311 - repeatable, not secret

    def stop(_number: int, _frame: object) -> None:
        raise TooSlowError(f"more than {SECONDS:g} s")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    start = time.process_time()
    try:
        examine(files)
    except Exception:
        return Failure(name, traceback.format_exc(), files)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    took = time.process_time() - start
    return Failure(name, f"took {took:.1f} s", files) if took > SECONDS else None


def save(failure: Failure, folder: Path) -> Path:
    """Write the files of a failure and its reason into a folder of its own."""
    place = folder / failure.name.replace(":", "-")
    place.mkdir(parents=True, exist_ok=True)
    for number, (name, data) in enumerate(failure.files.items()):
        (place / f"{number}-{name[-60:].encode('ascii', 'ignore').decode().replace('/', '_')}").write_bytes(data)
    (place / "reason.txt").write_text(failure.reason, encoding="utf-8", errors="backslashreplace")
    return place


def main() -> int:
    """Run the mutants that the command line asks for; 1 if any of them broke something."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=2000, help="number of mutants")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="same seed, same mutants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--replay", help="run the one mutant SEED:NUMBER")
    parser.add_argument("--save", type=Path, default=ROOT / "fuzz-failures", help="folder for mutants that fail")
    options = parser.parse_args()
    names = [options.replay] if options.replay else [f"{options.seed}:{number}" for number in range(options.count)]
    print(f"seed {options.seed}: {len(names):,} mutants of {len(_pool()):,} seeds, {options.jobs} processes")
    start, failures = time.perf_counter(), 0
    with multiprocessing.Pool(options.jobs) as workers:
        for failure in workers.imap_unordered(attempt, names, chunksize=20):
            if failure is not None:
                failures += 1
                last = failure.reason.strip().splitlines()[-1][:200]
                print(f"{failure.name}: {last}\n  saved in {save(failure, options.save)}", flush=True)
    took = time.perf_counter() - start
    print(f"{failures} failures in {len(names):,} mutants, {took:.0f} s, {len(names) / took:.0f} a second")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
