"""Synthetic traces: always the same bytes, and distributed as the mixes say."""

from __future__ import annotations

import collections
import hashlib
import subprocess
import sys

import pytest
import yaml

from paictl.resources import resource_folder
from paictl.sim.generate import MIXES, GenerateError, generate
from paictl.sim.job import DeadlineKind, in_order
from paictl.sim.traces.load import load
from paictl.sim.traces.native import to_csv
from tests.conftest import OTHER_PYTHON, ROOT

MADE = yaml.safe_load((resource_folder("traces") / "made.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(MADE))
def test_our_traces_are_made_as_it_is_written(name: str) -> None:
    recipe = MADE[name]
    text = (resource_folder("traces") / f"{name}.csv").read_text(encoding="utf-8")
    assert to_csv(generate(recipe["mix"], recipe["jobs"], recipe["seed"], recipe.get("load"))) == text
    trace = load(name)
    assert (trace.format, trace.bad, len(trace.jobs)) == ("native", (), recipe["jobs"])


def test_every_trace_of_ours_is_written_down() -> None:
    assert sorted(MADE) == sorted(path.stem for path in resource_folder("traces").glob("*.csv"))


@pytest.mark.skipif(OTHER_PYTHON is None, reason="there is no other Python here: make test-lowest")
def test_another_python_makes_the_same_bytes() -> None:
    script = (
        "import hashlib\nfrom paictl.sim.generate import MIXES, generate\n"
        "from paictl.sim.traces.native import to_csv\n"
        "print(hashlib.sha256(''.join(to_csv(generate(mix, 200, 3)) for mix in MIXES).encode()).hexdigest())"
    )
    digests = [
        subprocess.run([python, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for python in (sys.executable, str(OTHER_PYTHON))
    ]
    assert digests[0] == digests[1]
    own = "".join(to_csv(generate(mix, 200, 3)) for mix in MIXES)
    assert hashlib.sha256(own.encode()).hexdigest() == digests[0].strip()


@pytest.mark.parametrize("mix", sorted(MIXES))
def test_more_jobs_are_the_same_and_some_more_and_come_in_order(mix: str) -> None:
    few, many = generate(mix, 50, 7), generate(mix, 80, 7)
    assert list(many) == in_order(list(many))
    assert {job.id: job for job in few}.items() <= {job.id: job for job in many}.items()
    assert generate(mix, 50, 8) != few
    dense = generate(mix, 50, 7, load=2)
    assert dense[-1].submit == pytest.approx(few[-1].submit / 2, rel=0.02, abs=60_000)


def test_the_tiresias_mix_has_the_sizes_and_bins_of_the_paper() -> None:
    jobs = generate("tiresias", 6000, 1)
    counted = collections.Counter(job.gpus for job in jobs)
    for size, share in {1: 240, 2: 40, 4: 80, 8: 90, 16: 25, 32: 5}.items():
        assert counted[size] / 6000 == pytest.approx(share / 480, abs=0.02)
    short = [job for job in jobs if job.work < 800_000]
    assert sum(job.gpus <= 4 for job in short) / 6000 == pytest.approx(0.635, abs=0.03)
    assert sum(job.gpus > 4 for job in short) / 6000 == pytest.approx(0.165, abs=0.03)
    assert jobs[-1].submit / 6000 == pytest.approx(30_000, rel=0.05)


def test_the_gavel_mix_has_the_durations_of_the_paper() -> None:
    minutes = sorted(job.work / 60_000 for job in generate("gavel", 6000, 1))
    assert minutes[0] >= 10**1.5 - 1
    assert minutes[-1] <= 10**4 + 1
    assert sum(duration < 1000 for duration in minutes) / 6000 == pytest.approx(0.8, abs=0.02)
    assert minutes[2400] == pytest.approx(10**2.25, rel=0.12)


def test_the_philly_mix_is_like_the_trace() -> None:
    jobs = generate("philly", 8000, 1)
    spans = sorted(job.work / 1000 for job in jobs)
    assert spans[4000] == pytest.approx(1144, rel=0.15)
    assert sum(job.gpus == 1 for job in jobs) / 8000 == pytest.approx(76_627 / 82_247, abs=0.01)
    assert collections.Counter(job.vc for job in jobs).most_common(1)[0][0] == "6214e9"


def test_the_chronus_mixes_have_the_deadlines_of_the_traces() -> None:
    slo = generate("chronus-slo", 3000, 1)
    factors = [(job.deadlines[0].time - job.submit) / job.work for job in slo]
    assert sum(factors) / 3000 == pytest.approx(2.13, abs=0.1)
    urges = collections.Counter(job.urge for job in generate("chronus-mix2", 3000, 1))
    assert urges[DeadlineKind.SOFT] / 3000 == pytest.approx(18_525 / 30_940, abs=0.03)
    soft = next(job for job in generate("chronus-mix2", 50, 1) if job.urge is DeadlineKind.SOFT)
    assert [deadline.value for deadline in soft.deadlines] == [10, 8, 5, 2]


def test_what_cannot_be_made_is_refused() -> None:
    with pytest.raises(GenerateError, match="no mix 'tiresas'") as refused:
        generate("tiresas", 1)
    assert refused.value.hint == "did you mean 'tiresias'?"
    for jobs, dense in ((0, None), (1, 0.0), (1, -1.0)):
        with pytest.raises(GenerateError, match="at least one job"):
            generate("tenants", jobs, 0, dense)
