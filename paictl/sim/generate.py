"""Synthetic traces: from published mixes, or by resizing a trace; a seed gives the same trace everywhere.

Everything that a paper specifies is taken from it; `Mix.choices` lists our own choices where it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, text
from paictl.sim.dice import Dice
from paictl.sim.job import Deadline, DeadlineKind, Job, Share, in_order
from paictl.sim.traces.lines import MINUTE, SECOND
from paictl.sim.traces.profiles import SKEW
from paictl.sim.traces.source import TraceError
from paictl.units import Millis


class GenerateError(PaictlError, ValueError):
    """A trace that cannot be generated."""


@frozen
class Mix:
    """One published mix of jobs."""

    name: str
    title: str
    source: str
    choices: str
    """Our choices for what the source does not specify."""
    between: int
    """Mean time between arrivals, milliseconds."""
    make: Callable[[Streams, int, Millis], Job]
    """(streams, number, submission) -> job."""


class Streams:
    """A stream of dice for each quantity that is drawn, so that changing one does not affect the others."""

    def __init__(self, mix: str, seed: int) -> None:
        self.gaps, self.size, self.span, self.model, self.tenant, self.deadline = (
            Dice(seed, f"{mix}.{name}") for name in ("gap", "size", "span", "model", "tenant", "deadline")
        )


def generate(mix: str, jobs: int, seed: int = 0, load: float | None = None) -> tuple[Job, ...]:
    """`jobs` jobs of a mix, in the order of arrival; `load` makes the arrivals that many times as dense.

    Raises `GenerateError` for an unknown mix, less than one job, or a load that is not above 0.
    """
    if mix not in MIXES:
        raise GenerateError(
            text("no mix {mix!r}", mix=mix),
            hint=did_you_mean(mix, MIXES) or text("one of: {names}", names=", ".join(MIXES)),
        )
    if jobs < 1 or (load is not None and not 0 < load <= 1000):
        raise GenerateError("a trace needs at least one job and a load above 0", hint="for instance --jobs 100")
    chosen = MIXES[mix]
    between = max(1, round(chosen.between / load)) if load else chosen.between
    return tuple(in_order(_jobs(chosen, jobs, Streams(mix, seed), between)))


def _jobs(mix: Mix, jobs: int, streams: Streams, between: int) -> Iterator[Job]:
    at = 0
    for number in range(jobs):
        yield mix.make(streams, number, Millis(at))
        at += streams.gaps.exponential(between)


# --- Tiresias

_TIRESIAS_SIZES: Final = ((1, 240), (2, 40), (4, 80), (8, 90), (16, 25), (32, 5))


def _tiresias(streams: Streams, number: int, at: Millis) -> Job:
    gpus = streams.size.weighted(_TIRESIAS_SIZES)
    # Bins SS 63.5, SL 12.5, LS 16.5, LL 7.5 %: of small jobs 635 in 760 are short, of large ones 165 in 240.
    short = streams.span.below(760) < 635 if gpus <= 4 else streams.span.below(240) < 165
    work = streams.span.log_uniform(60, 799) if short else streams.span.log_uniform(800, 14_400)
    model = streams.model.pick(sorted(SKEW))
    return Job(str(number), at, gpus, Millis(work * SECOND), model=model, skew=SKEW[model])


# --- Gavel

_GAVEL_SIZES: Final = ((1, 70), (2, 10), (4, 15), (8, 5))
_GAVEL_RATES: Final = {
    "resnet18": {"V100": 1.0, "P100": 0.65, "K80": 0.1},
    "resnet50": {"V100": 1.0, "P100": 0.45, "K80": 0.12},
    "transformer": {"V100": 1.0, "P100": 0.7, "K80": 0.2},
    "lstm": {"V100": 1.0, "P100": 0.75, "K80": 0.35},
    "recommender": {"V100": 1.0, "P100": 0.9, "K80": 0.6},
    "a3c": {"V100": 1.0, "P100": 0.95, "K80": 0.8},
}


def _gavel(streams: Streams, number: int, at: Millis) -> Job:
    low, high = ("1.5", "3") if streams.span.below(10) < 8 else ("3", "4")
    work = streams.span.power_of_ten(Decimal(low), Decimal(high), MINUTE)
    gpus = streams.size.weighted(_GAVEL_SIZES)
    model = streams.model.pick(sorted(_GAVEL_RATES))
    return Job(
        str(number), at, gpus, Millis(work), model=model, throughput=_GAVEL_RATES[model], iterations=work // 100 + 1
    )


# --- Philly

_PHILLY_SIZES: Final = (
    (1, 76_627),
    (2, 1_818),
    (4, 1_870),
    (8, 1_643),
    (12, 7),
    (16, 199),
    (24, 7),
    (32, 67),
    (64, 6),
    (128, 3),
)
_PHILLY_SPANS: Final = (
    (
        1,
        (
            (0, 20),
            (50, 52),
            (100, 62),
            (250, 122),
            (500, 1_117),
            (750, 2_716),
            (900, 8_512),
            (950, 19_137),
            (990, 135_404),
            (1000, 868_927),
        ),
    ),
    (2, ((0, 2), (250, 16), (500, 21), (750, 76), (900, 73_625), (950, 197_392), (990, 526_030), (1000, 1_521_148))),
    (
        4,
        (
            (0, 20),
            (100, 138),
            (250, 772),
            (500, 17_431),
            (750, 89_422),
            (900, 184_519),
            (950, 274_339),
            (990, 908_661),
            (1000, 2_641_566),
        ),
    ),
    (
        128,
        (
            (0, 20),
            (100, 216),
            (250, 1_871),
            (500, 23_683),
            (750, 173_288),
            (900, 352_409),
            (950, 525_631),
            (990, 1_066_894),
            (1000, 2_658_784),
        ),
    ),
)
"""(up to this many GPUs, (thousandths of the jobs, seconds)), measured in petuum's philly.csv."""
_PHILLY_VCS: Final = (
    ("6214e9", 41_226),
    ("11cb48", 16_091),
    ("6c71a0", 9_953),
    ("b436b2", 7_423),
    ("103959", 1_934),
    ("ee9e8c", 1_511),
    ("0e4a51", 1_435),
    ("ed69ec", 1_137),
    ("7f04ca", 723),
    ("2869ce", 422),
    ("e13805", 374),
    ("23dbec", 8),
    ("51b7ef", 4),
    ("925e2b", 3),
    ("795a4c", 3),
)


def _philly(streams: Streams, number: int, at: Millis) -> Job:
    gpus = streams.size.weighted(_PHILLY_SIZES)
    points = next(points for most, points in _PHILLY_SPANS if gpus <= most)
    work = streams.span.quantile(points) * SECOND
    return Job(str(number), at, gpus, Millis(work), vc=streams.tenant.weighted(_PHILLY_VCS))


# --- Chronus

_CHRONUS_SIZES: Final = ((1, 28_300), (2, 210), (4, 1_200), (8, 890), (16, 110), (32, 13))
_CHRONUS_SPANS: Final = (
    (0, 20),
    (100, 23),
    (250, 32),
    (500, 60),
    (750, 174),
    (900, 676),
    (950, 1_427),
    (990, 3_222),
    (1000, 4_058),
)
_CHRONUS_FACTORS: Final = (
    (0, 110),
    (50, 128),
    (100, 140),
    (250, 164),
    (500, 197),
    (750, 245),
    (900, 312),
    (950, 354),
    (990, 420),
    (1000, 500),
)
_CHRONUS_MODELS: Final = ("alexnet", "inception_v3", "mobilenet_v2", "resnet101", "vgg16")


def _chronus(urges: tuple[tuple[DeadlineKind, int], ...]) -> Callable[[Streams, int, Millis], Job]:
    def make(streams: Streams, number: int, at: Millis) -> Job:
        minutes = streams.span.quantile(_CHRONUS_SPANS)
        urge = streams.deadline.weighted(urges)
        first = at + minutes * streams.deadline.quantile(_CHRONUS_FACTORS) * MINUTE // 100
        steps = [streams.deadline.between(2, 6) * 10 * MINUTE for _ in range(3)]
        times = [first, first + steps[0], first + sum(steps[:2]), first + sum(steps)]
        deadlines = {
            DeadlineKind.STRICT: (Deadline(Millis(first), 10.0),),
            DeadlineKind.SOFT: tuple(
                Deadline(Millis(time), value) for time, value in zip(times, _REWARDS, strict=True)
            ),
            DeadlineKind.BEST_EFFORT: (),
        }[urge]
        return Job(
            str(number),
            Millis(at // MINUTE * MINUTE),
            streams.size.weighted(_CHRONUS_SIZES),
            Millis(minutes * MINUTE),
            vc=streams.tenant.weighted(_PHILLY_VCS[:11]),
            model=streams.model.pick(_CHRONUS_MODELS),
            urge=urge,
            deadlines=deadlines,
        )

    return make


_REWARDS: Final = (10.0, 8.0, 5.0, 2.0)


# --- SC'17

_SC17_SPANS: Final = {
    ("bvlc_alexnet", 1): 69,
    ("bvlc_alexnet", 2): 127,
    ("bvlc_alexnet", 3): 170,
    ("bvlc_googlenet", 1): 112,
    ("bvlc_googlenet", 2): 146,
    ("bvlc_googlenet", 3): 174,
}

_SC17_BESIDE: Final = {
    ("bvlc_alexnet", 2): {"bvlc_alexnet/1*2": 0.76, "bvlc_googlenet/1*2": 0.81},
    ("bvlc_googlenet", 2): {"bvlc_alexnet/1*2": 0.86},
    ("bvlc_googlenet", 3): {"bvlc_alexnet/1*1": 0.99},
}
"""The artifact's times alone, divided by those beside another job; unlisted pairs do not slow each other."""


def _sc17(streams: Streams, number: int, at: Millis) -> Job:
    kind = streams.model.weighted((("bvlc_alexnet", 80), ("bvlc_googlenet", 20)))
    gpus = streams.size.weighted(((1, 38), (2, 48), (3, 14)))
    utility = streams.deadline.between(300, 520) / 1000
    sensitivity = {"node": 0.8 if kind == "bvlc_alexnet" else 0.97} if gpus == 2 else {}
    return Job(
        str(number),
        at,
        gpus,
        Millis(_SC17_SPANS[kind, gpus] * SECOND),
        model=f"{kind}/1",
        sensitivity=sensitivity,
        beside=_SC17_BESIDE.get((kind, gpus), {}),
        facts={"utility": utility, "memory": 1.0},
    )


# --- two tenants

_TENANTS: Final = (("research", 60), ("product", 40))


def _tenants(streams: Streams, number: int, at: Millis) -> Job:
    vc = streams.tenant.weighted(_TENANTS)
    gpus = streams.size.weighted(((1, 50), (2, 20), (4, 20), (8, 10)) if vc == "research" else ((4, 60), (8, 40)))
    span = streams.span.log_uniform(5, 240) if vc == "research" else streams.span.log_uniform(60, 720)
    share = Share.OPPORTUNISTIC if vc == "research" and streams.deadline.below(5) == 0 else Share.GUARANTEED
    model = streams.model.pick(sorted(SKEW))
    return Job(
        f"{vc}-{number}",
        at,
        gpus,
        Millis(span * MINUTE),
        vc=vc,
        user=f"u{streams.tenant.below(6)}",
        model=model,
        skew=SKEW[model],
        share=share,
        gpu_util=streams.model.between(3, 10) / 10,
    )


MIXES: Final = {
    mix.name: mix
    for mix in (
        Mix(
            "tiresias",
            "480-job testbed mix of Tiresias",
            "Tiresias (NSDI'19) §6.1: sizes, bins, Poisson 30 s",
            "within a bin the time is log-uniform, 1 to 13 minutes and 13 minutes to 4 hours; models evenly",
            30 * SECOND,
            _tiresias,
        ),
        Mix(
            "gavel",
            "Gavel's generator of continuous traces",
            "Gavel (OSDI'20) §7.1: 10^x minutes, 70/25/5 % sizes",
            "2 GPUs 10 and 4 GPUs 15 %; six models with rounded rates of ours; one job in 10 minutes",
            10 * MINUTE,
            _gavel,
        ),
        Mix(
            "philly",
            "modeled on the 82,247 jobs of Philly",
            "sizes, tenants, run times by size measured in philly.csv",
            "arrivals are Poisson: no days, nights or weekends",
            114_400,
            _philly,
        ),
        Mix(
            "chronus-slo",
            "Chronus' trace with strict deadlines",
            "measured in the artifact's SLO trace (SoCC'21)",
            "arrivals are Poisson",
            39_100,
            _chronus(((DeadlineKind.STRICT, 1),)),
        ),
        Mix(
            "chronus-mix1",
            "Chronus' strict deadlines and best effort",
            "measured in the artifact's MIX1 trace",
            "arrivals are Poisson",
            39_100,
            _chronus(((DeadlineKind.STRICT, 21_724), (DeadlineKind.BEST_EFFORT, 9_216))),
        ),
        Mix(
            "chronus-mix2",
            "Chronus' soft and strict deadlines, best effort",
            "measured in the artifact's MIX2 trace",
            "arrivals are Poisson; soft deadlines 20 to 60 minutes apart",
            39_100,
            _chronus(((DeadlineKind.SOFT, 18_525), (DeadlineKind.STRICT, 9_276), (DeadlineKind.BEST_EFFORT, 3_139))),
        ),
        Mix(
            "sc17",
            "Caffe jobs of the topology-aware scheduler",
            "measured in its workloads (SC'17)",
            "all with batch size 1, rounded times",
            10 * SECOND,
            _sc17,
        ),
        Mix(
            "tenants",
            "two tenants of our own",
            "paictl",
            "research: many small jobs, a fifth of them opportunistic; product: few large ones",
            6 * MINUTE,
            _tenants,
        ),
    )
}
"""By name."""


def inflated(jobs: Sequence[Job], capacity: int, ratio: float, seed: int) -> list[Job]:
    """The jobs in random order, one a millisecond, until they ask for `ratio` of `capacity` (thousandths of devices).

    If the trace asks for more, jobs are left out at random; if it asks for less, copies of random jobs are appended.
    As in FGD's artifact, the copies end with the first one of which a *single* device would be too many, so that jobs
    with several devices overshoot. Raises `TraceError` if no job requests a device.
    """
    dice = Dice(seed, "inflate")
    ordered = sorted(jobs, key=lambda job: job.id)
    for last in range(len(ordered) - 1, 0, -1):
        swap = dice.below(last + 1)
        ordered[last], ordered[swap] = ordered[swap], ordered[last]
    requested, goal = sum(job.milli for job in ordered), capacity * ratio
    if not requested:
        raise TraceError("no job requests a device", hint="--inflate needs jobs with devices")
    chosen = list(ordered)
    while requested > goal:
        requested -= chosen.pop(dice.below(len(chosen))).milli
    if len(chosen) == len(ordered):
        drawn = dice.pick(ordered)
        while requested + min(drawn.milli, drawn.gpu_milli) <= goal:
            requested += drawn.milli
            chosen.append(replace(drawn, id=f"{drawn.id}~{len(chosen) - len(ordered) + 1}"))
            drawn = dice.pick(ordered)
    return [replace(job, submit=Millis(place)) for place, job in enumerate(chosen)]
