"""The list of the labs; loads nothing that only a lab under way needs."""

from __future__ import annotations

from paictl.cli.command import App
from paictl.cli.console import Output, write_data, write_table
from paictl.cli.lab.language import LangOption, speaks
from paictl.cli.options import OutputOption
from paictl.lab.folders import labs_folder
from paictl.lab.manifest import all_labs
from paictl.lab.messages import say
from paictl.lab.progress import ProgressFile

app = App()


@app.command("list", epilog="paictl lab list --lang zh")
def list_labs(lang: LangOption = None, output: OutputOption = Output.TABLE) -> None:
    """List the labs and your progress."""

    done, words = ProgressFile(labs_folder()).read(), speaks(lang)
    rows = []
    for lab in all_labs():
        mine = done.lab(lab.id)
        passed = sum(check.id in mine.passed for check in lab.checks)
        needed = say("minutes", words if output is Output.TABLE else "en", number=lab.minutes)
        rows.append((lab.id, lab.title.of(words), needed, f"{passed}/{len(lab.checks)}"))
    if output is Output.TABLE:
        write_table(say("list-heads", words).split(), rows)
    else:
        write_data([dict(zip(("id", "title", "time", "passed"), row, strict=True)) for row in rows], output)
