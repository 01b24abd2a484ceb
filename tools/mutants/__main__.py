"""`make mutants`: break single lines of our code on purpose, and see whether a unit test notices (docs/mutants.md).

The operators are cosmic-ray's: another comparison, `and` for `or`, a `not` more, a number more or less, a loop that
does nothing, a decorator or an exception clause less. All mutants with all tests would take weeks. So a room has a
sample, drawn by place, with a seed; and a mutant has the tests that run its line, known from one run under coverage:
those of its own room first, quick files first, some seconds of them, until the first one fails.

    map [TEST...]             which test runs which line (once; again for tests that are new or have changed)
    run [--sample 40] [--seed 20] [ROOM...]    try those mutants of a sample that were not tried yet
    again                     try the survivors again, after `map` of new tests
    report                    scores and survivors

Everything is kept in build/mutants. A sample means the same mutants as long as the code of its room is the same.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from tools.mutants.samples import ROOMS, ROOT, TREE, Mutant, copy_tree, mutated, sample
from tools.mutants.samples import difference as difference_of
from tools.mutants.verdicts import attempt, record

RESULTS: Final = ROOT / "build" / "mutants" / "results.jsonl"
NOTICED: Final = ("killed", "hangs")
OTHERS: Final = ("survived", "reached by no test", "out of time")


def results() -> dict[tuple[str, ...], list[Mutant]]:
    """All mutants that were tried, each with its verdicts in order."""
    tried: dict[tuple[str, ...], list[Mutant]] = defaultdict(list)
    for line in RESULTS.read_text().splitlines() if RESULTS.exists() else []:
        tried[key(json.loads(line))].append(json.loads(line))
    return tried


def key(mutant: Mutant) -> tuple[str, ...]:
    """What makes it the same mutant, also after lines have moved."""
    return mutant["module"], mutant["operator"], mutant["diff"], str(mutant["occurrence"])


def write(tried: Iterator[Mutant]) -> None:
    """Keep each verdict as it comes."""
    for number, mutant in enumerate(tried, 1):
        with RESULTS.open("a") as file:
            file.write(json.dumps(mutant) + "\n")
        place = f"{mutant['module']}:{mutant['line']}"
        print(number, mutant["verdict"], place, mutant["seconds"], mutant["by"], flush=True)


def still(mutant: Mutant) -> bool:
    """Whether the code has this place as it was."""
    after = mutated(mutant)
    return after is not None and difference_of(mutant, after) == mutant["diff"]


def interval(part: int, whole: int) -> str:
    """Wilson's, of 95 %."""
    z, share = 1.96, part / whole
    middle = (share + z * z / (2 * whole)) / (1 + z * z / whole)
    half = z / (1 + z * z / whole) * math.sqrt(share * (1 - share) / whole + z * z / (4 * whole * whole))
    return f"{100 * (middle - half):.0f}–{100 * (middle + half):.0f} %"


def report() -> None:
    """Print the scores of the rooms at their first and last try, and the mutants that nothing notices."""
    tried = results()
    print(f"| room | mutants | score at first | score | 95 % | {' | '.join(OTHERS)} |\n{'| --- ' * 8}|")
    for room in ROOMS:
        pairs = [(tries[0]["verdict"], tries[-1]["verdict"]) for tries in tried.values() if tries[0]["room"] == room]
        if pairs:
            first, last = (sum(pair[i] in NOTICED for pair in pairs) for i in (0, 1))
            others = Counter(pair[1] for pair in pairs)
            shares = (
                f"{100 * first / len(pairs):.0f} % | {100 * last / len(pairs):.0f} % | {interval(last, len(pairs))}"
            )
            print(f"| {room} | {len(pairs)} | {shares} | {' | '.join(str(others[name]) for name in OTHERS)} |")
    for mutant in sorted((tries[-1] for tries in tried.values()), key=lambda m: (m["module"], m["line"])):
        if mutant["verdict"] not in NOTICED:
            print(f"\n{mutant['module']}:{mutant['line']} {mutant['verdict']} ({mutant['tests']})\n{mutant['diff']}")


def main() -> None:
    """Read the command line, and do it in the copy of the tree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["map", "run", "again", "report"])
    parser.add_argument("names", nargs="*", help="tests of `map`, rooms of `run`")
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--by-name", action="store_true", help="choose tests by their names, without a map")
    options = parser.parse_intermixed_args()  # `run --sample 40 deploy`: names may follow options
    if options.command == "report":
        return report()
    shared = os.environ.get("PAICTL_SHARED", str(ROOT.parent / "shared"))
    os.environ |= {"CI": "true", "PYTHONPATH": str(TREE), "PAICTL_SHARED": shared}
    copy_tree()
    os.chdir(TREE)
    sys.path[0] = str(TREE)
    if options.command == "map":
        return record(options.names)
    tried = results()
    if options.command == "again":
        left = [tries[-1] for tries in tried.values() if tries[-1]["verdict"] not in NOTICED]
        return write(attempt([mutant for mutant in left if still(mutant)], mapped=not options.by_name))
    for room in options.names or ROOMS:
        mutants = sample(room, options.sample, options.seed)
        write(attempt([mutant for mutant in mutants if key(mutant) not in tried], mapped=not options.by_name))
    return None


if __name__ == "__main__":
    main()
