"""`make fuzz`: small inputs that ask for much; none of them may take more than 1 GB of memory or 10 s.

Each case is one input of at most 1 MB that becomes large on the way: anchors and aliases, deep nesting, keys and rows
without end, huge numbers, ranges, templates, patterns, archives. Each runs as a command of its own, as a user would
type it, in a process that may have no more than 4 GB of address space. A failure is too much memory or processor time,
a signal, a traceback or an internal error; what the command says about its input is its own affair.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MOST_INPUT = 1_000_000
MOST_MEMORY = 1 << 30
MOST_SECONDS = 10.0
"""Processor time, so that a busy machine is no failure."""
ADDRESS_SPACE = 4 << 30

Files = dict[str, bytes]


@dataclass(frozen=True)
class Case:
    """A command on an input; `{dir}` in its words is the folder with the files."""

    name: str
    words: tuple[str, ...]
    files: Callable[[], Files]


def text(**files: str) -> Callable[[], Files]:
    """Files by name; `__` stands for a dot."""
    return lambda: {name.replace("__", "."): content.encode() for name, content in files.items()}


def bomb(levels: int, width: int, leaf: str = '"xxxxxxxxxxxxxxxx"') -> str:
    """Aliases of aliases: `width ** levels` leaves."""
    lines = [f"a0: &a0 [{', '.join([leaf] * width)}]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


def strings(levels: int, width: int) -> str:
    """The same of mappings, which a merge key copies."""
    lines = ["m0: &m0 {" + ", ".join(f"k{i}: {i}" for i in range(width)) + "}"]
    lines += [f"m{n}: &m{n} {{" + ", ".join(f"k{i}: *m{n - 1}" for i in range(width)) + "}" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


JOB = """protocolVersion: 2
name: {name}
type: job
prerequisites: [{{name: image, type: dockerimage, uri: pai/standard}}]
{parameters}taskRoles:
  train:
    instances: {instances}
    dockerImage: image
    resourcePerInstance: {{gpu: {gpu}, cpu: 1, memoryMB: 1024}}
    commands:
{commands}
"""


def job(
    *, name: str = "job", instances: str = "1", gpu: str = "1", commands: str = "    - sleep 1", parameters: str = ""
) -> str:
    """A job file."""
    return JOB.format(name=name, instances=instances, gpu=gpu, commands=commands, parameters=parameters)


HIVED = """physicalCluster:
  cellTypes:
    NODE: {{childCellType: GPU, childCellNumber: {devices}, isNodeLevel: true}}
    RACK: {{childCellType: NODE, childCellNumber: {nodes}}}
  physicalCells:
{cells}
virtualClusters:
{vcs}
"""


def hived(
    *,
    devices: str = "8",
    nodes: str = "2",
    cells: str = "  - {cellType: RACK, cellAddress: r}",
    vcs: str = "  a: {virtualCells: [{cellType: RACK, cellNumber: 1}]}",
) -> str:
    """A hivedscheduler file."""
    return HIVED.format(devices=devices, nodes=nodes, cells=cells, vcs=vcs)


def chain(length: int) -> str:
    """Cell types, each two of the one before."""
    types = "".join(f"    C{n}: {{childCellType: C{n - 1}, childCellNumber: 2}}\n" for n in range(1, length))
    return (
        "physicalCluster:\n  cellTypes:\n    C0: {childCellType: GPU, childCellNumber: 8, isNodeLevel: true}\n"
        f"{types}  physicalCells:\n  - {{cellType: C{length - 1}, cellAddress: x}}\n"
        f"virtualClusters:\n  a: {{virtualCells: [{{cellType: C{length - 1}, cellNumber: 1}}]}}\n"
    )


NINES = "9" * 4000
MUCH = 900_000


def documents() -> Iterator[tuple[str, str]]:
    """YAML that is large only when it is read, whatever kind of file it is taken for."""
    yield "aliases of lists", bomb(9, 9)
    yield "aliases of mappings", strings(8, 10)
    yield "many aliases", "a: &a [1, 2, 3]\nb: [" + ", ".join(["*a"] * 150_000) + "]\n"
    yield "deep lists", "a: " + "[" * 200_000 + "]" * 200_000 + "\n"
    yield "deep mappings", "".join(" " * min(n, 800) + f"k{n}:\n" for n in range(1000))
    yield "many keys", "".join(f"k{n}: {n}\n" for n in range(70_000))
    yield "many empty keys", "{" + ",".join(f"k{n}" for n in range(100_000)) + "}"
    yield "many items", "a:\n" + "- 1\n" * 220_000
    yield "many documents", "---\na: 1\n" * 90_000
    yield "a long line", "a: " + "x" * MUCH + "\n"
    yield "a huge number", f"a: {NINES}\nb: 0x{'f' * 100_000}\nc: 1e999999\nd: {'1:' * 50_000}1\n"
    yield "many anchors", "".join(f"k{n}: &a{n} x\n" for n in range(55_000))
    yield "many tags", "".join("- !!str x\n" for n in range(90_000))
    yield (
        "a merge of merges",
        "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: 1}}\n" for n in range(1, 400)),
    )
    yield "block scalars", "a: |\n" + "  x\n" * 220_000
    yield "escapes", 'a: "' + "\\n" * 440_000 + '"\n'
    yield "indents", "".join("a:\n" + " " * 500 + f"b: {n}\n" for n in range(1800)).replace("a:", "k:")


def configurations() -> Iterator[tuple[str, str, str]]:
    """Kind, name and text of files that ask for much in their own terms."""
    for what, number in (("a million", "1000000"), ("2^31", "2147483648"), ("4,000 digits", NINES)):
        yield "hived", f"cells of {what} devices", hived(devices=number)
        yield "hived", f"cells of {what} nodes", hived(nodes=number)
        yield (
            "hived",
            f"{what} virtual cells",
            hived(vcs=f"  a: {{virtualCells: [{{cellType: RACK, cellNumber: {number}}}]}}"),
        )
        yield "job", f"{what} instances", job(instances=number)
        yield "job", f"{what} devices", job(gpu=number)
    yield "hived", "a chain of 300 types", chain(300)
    yield "hived", "a chain of 24 types", chain(24)
    yield (
        "hived",
        "20,000 cells",
        hived(cells="\n".join(f"  - {{cellType: RACK, cellAddress: r{n}}}" for n in range(20_000))),
    )
    yield (
        "hived",
        "14,000 virtual clusters",
        hived(vcs="\n".join(f"  v{n}: {{virtualCells: [{{cellType: RACK, cellNumber: 1}}]}}" for n in range(14_000))),
    )
    yield (
        "job",
        "many parameters in a template",
        job(
            parameters="parameters:\n" + "".join(f"  p{n}: {'x' * 100}\n" for n in range(3000)),
            commands="\n".join(
                "    - echo " + "".join(f"<% $parameters.p{n} %>" for n in range(40)) for _ in range(600)
            ),
        ),
    )
    yield (
        "job",
        "a parameter many times",
        job(parameters=f"parameters:\n  p: {'x' * 400_000}\n", commands="    - echo " + "<% $parameters.p %>" * 20_000),
    )
    yield (
        "job",
        "a parameter of parameters",
        job(
            parameters="parameters:\n  p0: xxxxxxxxxxxxxxxx\n"
            + "".join(f"  p{n}: '{f'<% $parameters.p{n - 1} %>' * 10}'\n" for n in range(1, 12)),
            commands="    - echo <% $parameters.p11 %>",
        ),
    )
    yield (
        "job",
        "many roles",
        job().replace(
            "taskRoles:\n",
            "taskRoles:\n"
            + "".join(
                f"  r{n}: {{instances: 1, dockerImage: image, resourcePerInstance: {{gpu: 0, cpu: 1, memoryMB: 1}}, "
                "commands: [x]}\n"
                for n in range(7000)
            ),
        ),
    )
    yield "job", "many commands", job(commands="    - x\n" * 110_000)
    yield "job", "half of a template", job(commands="    - " + "<% " * 250_000)
    yield (
        "layout",
        "many machines",
        (
            "machine-sku:\n  s: {mem: 1Gi, cpu: {vcore: 1}}\nmachine-list:\n"
            + "".join(
                f"- {{hostname: h{n}, hostip: 10.0.0.1, machine-type: s, pai-worker: 'true'}}\n" for n in range(11_000)
            )
        ),
    )
    yield "services", "patterns", "rest-server:\n  " + "(a+)+" * 100_000 + ": 1\n"
    yield (
        "worker-csv",
        "many rows",
        "".join(f"worker{n},10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}\n" for n in range(40_000)),
    )
    yield "worker-csv", "many columns", "w," + ",".join("x" * 3 for _ in range(240_000)) + "\n"
    yield "worker-csv", "an open quote", 'w,"' + "x\n" * 400_000


SERVICES = "hivedscheduler:\n  config: |\n    physicalCluster: {{}}\nsharing:\n{sharing}"
"""A services file with limits and budgets."""

OPERATIONS = """{"op":"nodes","names":["r/0","r/1"],"healthy":true}
{"op":"schedule","pod":{"uid":"p","spec":SPEC}}
{"op":"filter","pod":{"uid":"q","spec":SPEC}}
"""


def wishes() -> Iterator[tuple[str, str, str]]:
    """Files with what came later: limits, budgets, storages, SSH, reservations, run-time limits."""
    entries = {
        "budgets": "  - {{vc: v{n}, device-hours: 1}}\n",
        "user-limits": "  - {{vc: a, user: u{n}, devices: 1}}\n",
        "run-times": "  - {{vc: v{n}, maximum: 1h}}\n",
        "lend-limits": "  - {{vc: v{n}, devices: 1}}\n",
        "borrow-limits": "  - {{vc: v{n}, devices: 1}}\n",
        "departments": "  - {{name: d{n}, vcs: [v{n}]}}\n",
    }
    for key, row in entries.items():
        rows = "".join(row.format(n=n) for n in range(20_000))
        yield "services", f"20,000 {key}", SERVICES.format(sharing=f"  {key}:\n{rows}")
    plugin = "  com.microsoft.pai.runtimeplugin:\n"
    extras = {
        "18,000 times the plugin ssh": plugin + "  - {plugin: ssh, parameters: {jobssh: true}}\n" * 18_000,
        "20,000 storages": "  storages:\n" + "".join(f"  - {{name: s{n}, mountPath: /m{n}}}\n" for n in range(20_000)),
        "one storage 30,000 times": "  storages:\n" + "  - {name: s, mountPath: /m}\n" * 30_000,
        "a long reservation": f"  reservation: {'a' * MUCH}\n",
        "a run time of 4,000 digits": f"  maxRunTime: {NINES}h\n  checkpointEvery: {NINES}d\n",
        "a run time of many parts": f"  maxRunTime: {'1h' * 400_000}\n",
    }
    for name, lines in extras.items():
        yield "job", name, job() + "extras:\n" + lines


def operations() -> Iterator[tuple[str, str]]:
    """Operations of the scheduler that ask for much."""

    def member(pods: int | str) -> str:
        return f'{{"podNumber":{pods},"leafCellNumber":1}}'

    for name, number, members in (
        ("a million devices", "1000000", '{"podNumber":1,"leafCellNumber":1000000}'),
        ("2^31 pods", "1", member(2147483648)),
        ("4,000 digits of pods", "1", member(NINES)),
        ("10,000 members", "1", ",".join([member(1)] * 10_000)),
        ("a million pods", "1", member(1_000_000)),
    ):
        group = f'{{"name":"g","members":[{members}]}}'
        spec = f'{{"virtualCluster":"a","priority":0,"leafCellNumber":{number},"affinityGroup":{group}}}'
        yield name, OPERATIONS.replace("SPEC", spec)
    nodes = ",".join(f'"n{n}"' for n in range(4000))
    yield "4,000 nodes 20 times", f'{{"op":"nodes","names":[{nodes}],"healthy":true}}\n' * 20
    yield "deep JSON", "[" * 400_000 + "\n"


def json_files() -> Iterator[tuple[str, str]]:
    """JSON that is large only when it is read, for commands that take a plan, a report or a recording."""
    yield "deep", "[" * 300_000 + "]" * 300_000
    yield "a huge number", f'{{"schemaVersion": {NINES}, "moves": [{NINES}]}}'
    yield "many keys", "{" + ",".join(f'"k{n}":1' for n in range(70_000)) + "}"


def traces() -> Iterator[tuple[str, str]]:
    """CSV of jobs for the simulator."""
    head = "id,submit,duration,gpus\n"
    yield "few jobs, huge times", head + "".join(f"{n},0,99999999999999,1\n" for n in range(50))
    yield "4,000 digits", head + f"1,0,{NINES},1\n2,0,1,{NINES}\n"
    yield "a million devices", head + "".join(f"{n},0,10,1000000\n" for n in range(100))
    yield "60,000 jobs", head + "".join(f"{n},{n},60,1\n" for n in range(50_000))
    yield "one long row", head + "1," * 400_000 + "\n"


def archives() -> Iterator[tuple[str, str, Callable[[], Files]]]:
    """Archives that hold far more than they weigh: name, path to play, files."""

    def rows() -> bytes:
        return b"id,submit,duration,gpus\n" + b"1,0,1,1\n" * 30_000_000

    def gz() -> Files:
        return {"t.csv.gz": gzip.compress(rows(), 9)}

    def tar() -> Files:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            about = tarfile.TarInfo("t.csv")
            about.size = len(rows())
            archive.addfile(about, io.BytesIO(rows()))
        return {"t.tar.gz": out.getvalue()}

    def zipped() -> Files:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("t.csv", rows())
        return {"t.zip": out.getvalue()}

    yield "gzip", "{dir}/t.csv.gz", gz
    yield "tar", "{dir}/t.tar.gz/t.csv", tar
    yield "zip", "{dir}/t.zip/t.csv", zipped


WORDS: tuple[tuple[str, ...], ...] = (
    ("job", "submit", "{dir}/j.yaml", "--repeat", "1000000000"),
    ("job", "submit", "{dir}/j.yaml", "--duration", NINES),
    ("sim", "run", "tiny", "--policy", "fifo", "--cluster", "99999999x99999"),
    ("sim", "run", "tiny", "--policy", "fifo", "--cluster", f"{NINES}x1"),
    ("sim", "sweep", "tiny", "--policy", "las:knob=1..999999999", "--cluster", "2x4"),
    ("sim", "sweep", "tiny", "--policy", "fifo", "--seeds", "1..999999999", "--cluster", "2x4"),
    ("cluster", "tick", NINES),
    ("config", "pull", "-o", NINES),
    ("lab", "start", "9" * 4400),
    ("config", "validate", NINES),
    ("scheduler", "replay", "--config", NINES, "/dev/null"),
    ("cluster", "up", "--speed", NINES, "--name", "x"),
    ("reservation", "add", "--vc", "default", "--cells", f"{NINES}xGPU-POOL", "--for", "1h"),
    ("reservation", "add", "--vc", "default", "--cells", "1xGPU-POOL", "--for", f"{NINES}d"),
    ("reservation", "add", "--nodes", ",".join(["worker1"] * 15_000), "--for", "1h"),
    ("maintenance", "add", "--nodes", "worker1", "--from", NINES, "--for", f"{NINES}d"),
    ("cluster", "defrag", "plan", "--for", f"{NINES}xGPU-POOL"),
    ("sim", "size", "tiny", "--target", f"p95 queueing <= {NINES}h"),
    ("sim", "size", "tiny", "--target", "max waiting <= 0s", "--most", "999999999"),
    ("sim", "size", "tiny", "--target", "p95 queueing <= 1h", "--node", f"V100={NINES}"),
    ("sim", "size", "tiny", "--target", "p95 queueing <= 1h", "--failures", "node=1s,repair=1s"),
    ("sim", "sweep", "tiny", "--policy", "las:knob=0..1..0.0000000001", "--cluster", "2x4"),
    ("sim", "sweep", "tiny", "--policy", f"las:knob={'1|' * 60_000}1", "--cluster", "2x4"),
    ("sim", "run", "tiny", "--policy", f"las:queues={'/'.join(map(str, range(1, 20_000)))}", "--cluster", "2x4"),
    ("sim", "run", "tiny", "--policy", f"easy:factor={NINES}", "--cluster", "2x4"),
    ("sim", "run", "tiny", "--policy", "parsync:schedulers=100000000,partitions=100000000", "--cluster", "2x4"),
    ("sim", "run", "tiny", "--policy", "shockwave:horizon=100000000", "--cluster", "2x4"),
    ("sim", "run", "tiny", "--policy", "pollux:population=100000000", "--cluster", "2x4"),
    ("sim", "run", "tiny", "--policy", "chronus:lease=1,slot=1", "--cluster", "2x4"),
    ("sim", "run", "tiny", "--policy", "las:interval=0.000001", "--cluster", "2x4"),
    ("sim", "run", "tiny", "--policy", "fifo", "--cluster", "2x4", "--failures", "node=1s,device=1s,repair=1s"),
    ("sim", "run", "tiny", "--policy", "fgd", "--cluster", "2x4", "--inflate", "1000000000"),
    ("sim", "generate", "tiresias", "--jobs", "1000000000"),
)
"""Command lines that ask for much; {dir}/j.yaml is a job."""


def later_cases() -> Iterator[Case]:
    """Operations of the scheduler, and JSON for the commands that take some."""
    for name, content in operations():
        yield Case(
            f"operations: {name}",
            ("scheduler", "replay", "--config", "{dir}/h.yaml", "{dir}/ops.jsonl"),
            text(h__yaml=hived(), ops__jsonl=content),
        )
    for name, content in json_files():
        for words in (
            ("config", "apply", "{dir}/f.json", "-p", "{dir}"),
            ("cluster", "defrag", "apply", "--plan", "{dir}/f.json"),
            ("lab", "check-report", "{dir}/f.json"),
            ("extender", "explain-pod", "{dir}/f.json"),
            ("deploy", "apply", "{dir}/f.json"),
            ("support", "replay", "{dir}/f.json"),
        ):
            yield Case(f"{' '.join(words[:2])}: {name}", words, text(f__json=content))


def cases() -> Iterator[Case]:
    """All of them."""
    for name, content in documents():
        for kind in ("hived", "job", "layout", "services", "config"):
            yield Case(
                f"validate {kind}: {name}",
                ("config", "validate", "--kind", kind, "{dir}/f.yaml"),
                text(f__yaml=content),
            )
        yield Case(f"submit: {name}", ("job", "submit", "{dir}/f.yaml"), text(f__yaml=content))
        yield Case(
            f"simulate on: {name}",
            ("sim", "run", "tiny", "--policy", "fifo", "--cluster", "{dir}/f.yaml"),
            text(f__yaml=content),
        )
    for kind, name, content in (*configurations(), *wishes()):
        suffix = "csv" if kind.endswith("csv") else "yaml"
        files = text(**{f"f__{suffix}": content})
        yield Case(f"validate {kind}: {name}", ("config", "validate", "--kind", kind, f"{{dir}}/f.{suffix}"), files)
        if kind == "job":
            yield Case(f"submit: {name}", ("job", "submit", "{dir}/f.yaml"), files)
        if kind == "hived":
            yield Case(
                f"simulate on: {name}", ("sim", "run", "tiny", "--policy", "fifo", "--cluster", "{dir}/f.yaml"), files
            )
            yield Case(f"replay: {name}", ("scheduler", "replay", "--config", "{dir}/f.yaml", "/dev/null"), files)
    for name, content in traces():
        yield Case(
            f"trace: {name}",
            ("sim", "run", "{dir}/t.csv", "--policy", "fifo", "--cluster", "2x4"),
            text(t__csv=content),
        )
    yield from later_cases()
    for name, path, files in archives():
        if name == "tar":
            yield Case(f"support replay: {name}", ("support", "replay", "{dir}/t.tar.gz"), files)
        yield Case(f"archive: {name}", ("sim", "run", path, "--policy", "fifo", "--cluster", "2x4"), files)
    for words in WORDS:
        yield Case(f"words: {' '.join(words)[:70]}", words, text(j__yaml=job()))


@dataclass(frozen=True)
class Outcome:
    """What a command took, in seconds and bytes, and what is wrong with it."""

    seconds: float
    memory: int
    fault: str
    said: str = ""
    """The last line of its output."""


def run(case: Case, paictl: str) -> Outcome:
    """Carry a case out in a folder and with a cluster of its own."""
    with tempfile.TemporaryDirectory(prefix="paictl-size-") as name:
        folder, state = Path(name), Path(name, "state")
        for path, content in case.files().items():
            (folder / path).write_bytes(content)
            if len(content) > MOST_INPUT:
                raise ValueError(f"{case.name}: {len(content)} bytes are no small input")
        environment = {**os.environ, "PAICTL_STATE": str(state), "NO_COLOR": "1"}
        if case.words[0] in ("job", "cluster", "reservation", "maintenance") and "up" not in case.words:
            subprocess.run([paictl, "cluster", "up", "-q", "--speed", "0"], env=environment, check=True)
        words = [paictl, "--no-input", *(word.replace("{dir}", name) for word in case.words)]
        with (folder / "said").open("w+b") as said:
            process = subprocess.Popen(words, stdout=said, stderr=said, env=environment, preexec_fn=_limited)
            try:
                _, status, usage = os.wait4(process.pid, 0)
            finally:
                process.returncode = 0
            said.seek(0)
            output = said.read(2_000_000).decode(errors="replace")
        seconds, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
        code, last = os.waitstatus_to_exitcode(status), (output.strip().splitlines() or [""])[-1]
        return Outcome(seconds, memory, _fault(code, output, seconds, memory), f"exit code {code}: {last[:120]}")


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CPU, (int(3 * MOST_SECONDS), int(3 * MOST_SECONDS)))


def _fault(code: int, output: str, seconds: float, memory: int) -> str:
    if code < 0:
        return f"killed by signal {-code}"
    if "Traceback" in output or "internal error" in output or "MemoryError" in output:
        return f"exit code {code}: {output.strip().splitlines()[-1][:200]}"
    if seconds > MOST_SECONDS:
        return f"{seconds:.1f} s of processor time"
    return f"{memory / 2**20:.0f} MB" if memory > MOST_MEMORY else ""


def main() -> None:
    """Run the cases whose names have a word, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="cases whose name has this")
    parser.add_argument("--paictl", default=str(Path(sys.executable).with_name("paictl")))
    parser.add_argument("-v", "--verbose", action="store_true", help="say what each case took, and its last line")
    options = parser.parse_args()
    faults, worst = 0, Outcome(0.0, 0, "")
    chosen = [case for case in cases() if options.only in case.name]
    for case in chosen:
        outcome = run(case, options.paictl)
        worst = Outcome(max(worst.seconds, outcome.seconds), max(worst.memory, outcome.memory), "")
        if options.verbose:
            print(f"{case.name}: {outcome.seconds:.1f} s, {outcome.memory >> 20} MB, {outcome.said}", flush=True)
        if outcome.fault:
            faults += 1
            print(f"{case.name}: {outcome.fault}", flush=True)
    print(
        f"{len(chosen)} inputs of at most {MOST_INPUT // 1000} kB, {faults} faults; "
        f"at most {worst.seconds:.1f} s and {worst.memory / 2**20:.0f} MB"
    )
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
