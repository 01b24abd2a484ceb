"""Large hostile files: four times the text takes about four times the time, never sixteen times, and little memory.

Measured in a process of its own; the ratio is of two runs in the same process, so that the machine cancels out.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.conftest import ROOT

SMALL, LARGE = 100_000, 400_000
"""Characters of the two files."""

MOST_RATIO = 9.0
"""Four would be linear, sixteen quadratic."""

MOST_MB = 220
"""Peak memory of the process, with Python, all rules and both files."""

HIVED = """physicalCluster:
  skuTypes: {G: {gpu: 1, cpu: 4, memory: 8Gi}}
  cellTypes:
    N: {childCellType: G, childCellNumber: 2, isNodeLevel: true}
  physicalCells: [%s{cellType: N, cellAddress: n1}]
virtualClusters: {%sdefault: {virtualCells: [{cellType: N, cellNumber: 1}]}}
"""
JOB = """protocolVersion: 2
name: a
type: job
prerequisites: [{name: im, type: dockerimage, uri: x}]
taskRoles:
  train:
    dockerImage: im
    resourcePerInstance: {cpu: 1, memoryMB: 100, gpu: 1}
    commands: [%s]
"""
ONE = HIVED % ("", "")

# what, kind, begin, piece ({} is a running number), end
INPUTS: list[tuple[str, str, str, str, str]] = [
    ("comments", "hived", ONE, "# a comment: with {{words}}\n", ""),
    ("one comment", "hived", ONE + "# ", "a: b #, ", "\n"),
    ("ignore comments", "hived", "", "# paictl: ignore=NOPE\n", ONE),
    ("ignore comments that count", "hived", ONE, "k{}: 1 # paictl: ignore=SHP104\n", ""),
    ("ids in an ignore comment", "hived", "# paictl: ignore=", "HVD9{},", "X\n" + ONE),
    ("ignored files", "hived", "", "# paictl: ignore-file=X{}\n", ONE),
    ("templates begun", "job", JOB.partition("%s")[0] + "'", "<% ", "']\n"),
    ("templates", "job", JOB.partition("%s")[0], "'<% $x %>',", "]\n"),
    ("quotes", "job", JOB.partition("%s")[0], "'',", "]\n"),
    ("escapes", "job", JOB.partition("%s")[0] + '"', '\\"', '"]\n'),
    ("quoted fields", "worker-csv", "h1,10.0.0.1\n", '"",', "\n"),
    ("quoted lines", "worker-csv", "", '"a"\n', ""),
    ("brackets", "hived", "", "[", ""),
    ("lists in a list", "hived", ONE + "x: [", "[],", "]\n"),
    ("mappings in a mapping", "hived", ONE + "x: {", "{{}},", "}\n"),
    ("aliases", "hived", "x: &a 1\ny: [", "*a,", "]\n" + ONE),
    ("anchors", "hived", "y: [", "&a{} 1,", "]\n" + ONE),
    ("merges", "hived", "x: &a {k: 1}\ny: [", "{{<<: *a}},", "]\n" + ONE),
    ("one line", "hived", *(HIVED % ("@", "")).replace("\n  ", " ").partition("@")[::2], ""),
    ("unknown keys", "hived", ONE, "k{}: 1\n", ""),
    ("one key", "hived", ONE, "k: 1\n", ""),
    ("documents", "hived", "", "---\n", ""),
    ("tags", "hived", "x: [", "!t 1,", "]\n" + ONE),
    ("passwords in a line", "services", "rest-server: {", "password{}: x, ", "}\n"),
    ("passwords in lines", "services", "rest-server:\n", "  password{}: x\n", ""),
    ("passwords below one", "services", "rest-server: {password: {", "a{}: 'b', ", "}}\n"),
    ("embedded lines", "services", "rest-server: {}\nhivedscheduler:\n  config: |\n", "    k: 1\n", ""),
    ("embedded escapes", "services", 'rest-server: {}\nhivedscheduler:\n  config: "', "\\x41\\n", '"\n'),
    ("wrong hosts", "worker-csv", "", "H_{},300.1.1.1\n", ""),
    ("tabs", "hived", "a:\n", "\t", ""),
]

MEASURE = """
import json, sys, time
from paictl.config.linting.report import FORMATS, plain
from paictl.config.linting.validate import validate
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_memory
kind, begin, piece, end = json.loads(sys.argv[1])
def text(size):
    number = size // len(piece.format(10000))
    return begin + "".join(piece.format(i) for i in range(number)) + end
took = []
for size in (10_000, %d, %d):
    data = text(size).encode()
    start = time.process_time()
    plain(FORMATS["text"](validate(load_memory({"x": data}, FileKind(kind)))))
    took.append(time.process_time() - start)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))  # ru_maxrss would count what the parent had
print(json.dumps([took[1], took[2], int(status["VmHWM"].split()[0]) / 1024]))
""" % (SMALL, LARGE)  # noqa: UP031 - the text has braces


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="counts memory in other units")
@pytest.mark.parametrize("given", INPUTS, ids=lambda given: given[0])
def test_time_grows_with_the_text_and_memory_stays_small(given: tuple[str, str, str, str, str]) -> None:
    _, kind, begin, piece, end = given
    if given[0] == "one line":
        begin, piece, end = begin, '{{"cellType":"N","cellAddress":"NODE{}"}},', piece
    words = json.dumps([kind, begin, piece, end])
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, words], capture_output=True, text=True, timeout=600, cwd=ROOT, check=True
    )
    small, large, megabytes = json.loads(done.stdout)
    assert large < max(MOST_RATIO * small, 0.5), (small, large)
    assert megabytes < MOST_MB
