"""What a lab says: frozen data read from `labs/NN_topic/lab.yaml`, which `schemas/lab.schema.json` describes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from paictl.errors import PaictlError
from paictl.frozen import frozen, frozen_caching
from paictl.i18n import text
from paictl.lab.cache import remembered
from paictl.lab.messages import LANGUAGES, LabError
from paictl.resources import resource_folder

MANIFEST: Final = "lab.yaml"


@frozen
class BilingualText:
    """A text in both languages."""

    en: str
    zh: str

    def of(self, language: str) -> str:
        """The text in a language."""
        return self.zh if language == "zh" else self.en


@frozen
class FileEdit:
    """`find` occurs once in the student's `file`; `write` takes its place."""

    file: str
    find: str
    write: str


@frozen
class Act:
    """What is done in a step: files are copied (name there → path in the lab) and edited, then commands typed.

    Without `commands` those of the step are typed.
    """

    edits: tuple[FileEdit, ...] = ()
    copies: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[str, ...] | None = None


@frozen
class Step:
    """One thing that the student does; `solution` where the student has to find out what.

    `predict` asks what will come of it, to be answered before it is done; `guess` is what a student may say, right or
    wrong, and is noted where paictl does the step. `there` is the step on a cluster that was up before the lab, where
    something else is done.
    """

    id: str
    text: BilingualText
    commands: tuple[str, ...]
    hints: tuple[BilingualText, ...] = ()
    solution: Act = Act()
    predict: BilingualText | None = None
    guess: BilingualText | None = None
    there: Step | None = None

    def done_by(self, act: Act) -> tuple[str, ...]:
        """The commands that an act types in this step."""
        return self.commands if act.commands is None else act.commands


@frozen
class Statement:
    """Something that must be true: `kind` is a key of `checks.KINDS`, `says` what the manifest wrote under it."""

    kind: str
    says: Any


@frozen
class Check:
    """Passes after the step `after` and not before; `look` is the command that shows why."""

    id: str
    after: str
    says: BilingualText
    look: str
    expect: tuple[Statement, ...]


@frozen
class NearMiss:
    """A mistake that students make: other acts in some steps, or the steps in another order.

    The checks `fails` fail under it; `when` tells that it was made, `says` leads on.
    """

    id: str
    says: BilingualText
    fails: tuple[str, ...]
    when: tuple[Statement, ...] = ()
    acts: Mapping[str, Act] = field(default_factory=dict)
    order: tuple[str, ...] = ()


@frozen
class ClassTask:
    """What each student of a class does at the teacher's server.

    ``{user}`` and ``{vc}`` in text and statements are the student's; `job` is a file of the lab that is submitted to
    the virtual cluster `vc`, both empty where nothing is.
    """

    id: str
    says: BilingualText
    text: BilingualText
    expect: tuple[Statement, ...]
    job: str = ""
    vc: str = ""


@frozen
class Question:
    """What the student answers in words, and a good answer."""

    text: BilingualText
    answer: BilingualText


@frozen_caching
class Lab:
    """One lab; `folder` holds its texts and files.

    It begins with a cluster made from a `preset` or its own `layout`, or with neither: then the student brings one up,
    or needs none. `words` maps names in its files to what they are where it runs, if that is elsewhere (`fitting`).
    """

    id: str
    folder: Path
    title: BilingualText
    goal: BilingualText
    minutes: int
    preset: str | None
    layout: str | None
    steps: tuple[Step, ...]
    checks: tuple[Check, ...]
    near_misses: tuple[NearMiss, ...]
    questions: tuple[Question, ...]
    words: Mapping[str, str] = field(default_factory=dict)
    in_class: tuple[ClassTask, ...] = ()

    @property
    def number(self) -> str:
        """The two digits that the id begins with."""
        return self.id[:2]

    @property
    def has_cluster(self) -> bool:
        """Whether a cluster is up when the lab begins."""
        return self.preset is not None or self.layout is not None

    @cached_property
    def step_ids(self) -> tuple[str, ...]:
        """Ids of the steps in order."""
        return tuple(step.id for step in self.steps)

    def step(self, name: str) -> Step:
        """A step by id."""
        return self.steps[self.step_ids.index(name)]

    def checks_after(self, step: str) -> tuple[Check, ...]:
        """The checks that pass with a step."""
        return tuple(check for check in self.checks if check.after == step)

    def text_file(self, language: str) -> Path:
        """The lab's text in a language."""
        return self.folder / f"lab.{language}.md"

    @cached_property
    def job_names(self) -> frozenset[str]:
        """Names of all jobs that the lab is about: those of its files, statements and commands."""
        names: set[str] = set()
        for path in self.files():
            names.update(re.findall(r"^name: *([\w-]+)", path.read_text(encoding="utf-8"), re.MULTILINE))
        for statement in (
            *(statement for check in self.checks for statement in check.expect),
            *(statement for miss in self.near_misses for statement in miss.when),
        ):
            names.update(_jobs_in(statement))
        acts = [act for miss in self.near_misses for act in miss.acts.values()]
        lines = [
            *(line for step in self.steps for line in step.commands),
            *(line for step in self.steps for line in step.solution.commands or ()),
            *(line for act in acts for line in act.commands or ()),
        ]
        names.update(name for line in lines for name in re.findall(r"--name[ =]([\w-]+)", line))
        return frozenset(names)

    def files(self) -> list[Path]:
        """What a student gets: the files of the folder, without manifest, texts and subfolders."""
        own = {MANIFEST, *(f"lab.{language}.md" for language in LANGUAGES)}
        return sorted(path for path in self.folder.iterdir() if path.is_file() and path.name not in own)


def _jobs_in(statement: Statement) -> Iterator[str]:
    """The names of jobs in a statement."""
    rows = statement.says if isinstance(statement.says, list) else [statement.says]
    for row in (*rows, *(row["event"] for row in rows if isinstance(row.get("event"), dict))):
        names = [row.get("job"), *row.get("jobs", ())] if isinstance(row.get("jobs", ()), list) else [row.get("job")]
        yield from (str(name) for name in [*names, row.get("name") if statement.kind == "job" else None] if name)


def all_labs(folder: Path | None = None) -> list[Lab]:
    """The labs that paictl brings, by number."""
    root = folder or resource_folder("labs")
    read = read_lab if folder else _our_lab
    return [read(root / name) for name in _ids(root)]


def _ids(root: Path) -> list[str]:
    """The names of the folders with a lab, in their order."""
    ids = (path.name for path in root.iterdir() if (path / MANIFEST).is_file()) if root.is_dir() else ()
    return sorted(name for name in ids if name[0].isdecimal())


def find_lab(word: str, folder: Path | None = None) -> Lab:
    """The lab with an id, number or topic (``3``, ``03``, ``priority``); raises `LabError` if none or several."""
    root = folder or resource_folder("labs")
    ids = _ids(root)
    number = f"{int(word):02}" if word.isdecimal() and len(word) <= 4 else None
    matches = [name for name in ids if name == word or name[:2] == number]
    matches = matches or [name for name in ids if word in name]
    if len(matches) != 1:
        raise LabError("several-labs" if matches else "no-such-lab", word=word, labs=", ".join(matches))
    return (read_lab if folder else _our_lab)(root / matches[0])


def _data(path: Path, *, checked: bool = False) -> Any:
    from paictl.lab import manifestfile  # late: most commands remember what it says

    return manifestfile.read_checked(path) if checked else manifestfile.read(path)


def _our_lab(folder: Path) -> Lab:
    """A lab that paictl brings: its manifest is checked by the tests and by `lab selftest`, not at every command."""
    try:
        return _lab(folder, remembered(folder / MANIFEST, _data))
    except (KeyError, TypeError, AttributeError, StopIteration):
        return read_lab(folder)  # which says what is wrong with it


def read_lab(folder: Path) -> Lab:
    """The lab in a folder; raises `PaictlError` with the first mistake of its manifest."""
    path = folder / MANIFEST
    lab = _lab(folder, _data(path, checked=True))
    if lab.id != folder.name:
        message = text("the lab calls itself {id!r} in the folder {folder!r}", id=lab.id, folder=folder.name)
        raise PaictlError(message, where=str(path))
    return lab


def _lab(folder: Path, data: Mapping[str, Any]) -> Lab:
    return Lab(
        id=data["lab"],
        folder=folder,
        title=_text(data["title"]),
        goal=_text(data["goal"]),
        minutes=data.get("minutes", 10),
        preset=data["needs"].get("preset"),
        layout=data["needs"].get("layout"),
        steps=tuple(_step(row) for row in data["steps"]),
        checks=tuple(
            Check(row["id"], row["after"], _text(row["says"]), row["look"], statements(row["expect"]))
            for row in data["checks"]
        ),
        near_misses=tuple(_near_miss(row) for row in data["near-misses"]),
        questions=tuple(Question(_text(row["text"]), _text(row["answer"])) for row in data["questions"]),
        in_class=tuple(
            ClassTask(
                row["id"],
                _text(row["says"]),
                _text(row["text"]),
                statements(row["expect"]),
                row.get("job", ""),
                row.get("vc", ""),
            )
            for row in data.get("class", ())
        ),
    )


def statements(rows: Sequence[Mapping[str, Any]]) -> tuple[Statement, ...]:
    """Statements from the manifest's mappings of one key each."""
    return tuple(Statement(kind, says) for row in rows for kind, says in row.items())


def _text(row: Mapping[str, str]) -> BilingualText:
    return BilingualText(row["en"].strip(), _joined(row["zh"].strip()))


def _joined(folded: str) -> str:
    """A Chinese text without the spaces that YAML puts where it folds a line beside characters or marks."""
    text, *words = folded.split(" ")
    for word in words:
        before, after = text[-1:], word[:1]
        beside = _is_mark(before) or (_is_character(before) and (_is_character(after) or _is_mark(after)))
        text += word if beside else f" {word}"
    return text


def _is_mark(character: str) -> bool:
    return "\u3000" <= character <= "\u303f" or "\uff00" <= character <= "\uffef"


def _is_character(character: str) -> bool:
    return "\u4e00" <= character <= "\u9fff"


def _step(row: Mapping[str, Any]) -> Step:
    there = {name: value for name, value in row.items() if name != "there"} | row["there"] if "there" in row else None
    return Step(
        row["id"],
        _text(row["text"]),
        tuple(row["commands"]),
        tuple(_text(hint) for hint in row.get("hints", ())),
        _act(row.get("solution", {})),
        _text(row["predict"]) if "predict" in row else None,
        _text(row["guess"]) if "guess" in row else None,
        None if there is None else _step(there),
    )


def _act(row: Mapping[str, Any]) -> Act:
    commands = row.get("commands")
    edits = tuple(FileEdit(**edit) for edit in row.get("edit", ()))
    return Act(edits, dict(row.get("copy", {})), None if commands is None else tuple(commands))


def _near_miss(row: Mapping[str, Any]) -> NearMiss:
    acts = {name: _act(act) for name, act in row.get("steps", {}).items()}
    return NearMiss(
        row["id"],
        _text(row["says"]),
        tuple(row["fails"]),
        statements(row.get("when", ())),
        acts,
        tuple(row.get("order", ())),
    )
