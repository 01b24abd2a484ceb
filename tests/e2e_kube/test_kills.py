"""Controller and REST server die 60 times while users submit and stop jobs: nothing is lost or done twice."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest
import yaml

from paictl.cluster.interface import JobState
from paictl.operate.users.accounts import NewUser, add
from tests.e2e_kube.accounts import PAICTL
from tests.e2e_kube.controlplane import HOST, ControlPlane, Program, free_ports
from tests.e2e_kube.jobrig import SPACE, JobRig, finish, live, opened, rack_of_jobs, request, role
from tests.e2e_kube.kubeapi import ApiError, Json, KubeApi, until
from tests.e2e_kube.shell import Shell
from tests.e2e_kube.stages import END

PATIENCE: Final = 60.0
PASSWORD: Final = "long-enough-4-ann"  # noqa: S105 - of a test


@pytest.fixture(scope="module")
def rig(plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobRig]:
    with rack_of_jobs(plane, api, tmp_path_factory.mktemp("kills")) as made:
        yield made


@pytest.fixture(scope="module")
def server(rig: JobRig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """`paictl serve` for this cluster, on a port that stays the same."""
    shell = Shell(rig.plane, tmp_path_factory.mktemp("server"))
    add(opened(rig.plane).users, NewUser("ann", PASSWORD, vcs=("A", "B")))
    (port,) = free_ports(1)
    program = Program(
        "rest-server",
        [*PAICTL, "serve", "--listen", f"{HOST}:{port}"],
        rig.plane.folder / "rest-server.log",
        shell.environment,
    )
    program.start()
    yield program
    program.stop()


class Client:
    """A user who asks until there is an answer, as a patient program does; one token outlives all the servers."""

    def __init__(self, server: Program) -> None:
        self.port = int(server.words[-1].rpartition(":")[2])
        asked = {"username": "ann", "password": PASSWORD}
        self.head = {"Content-Type": "application/json"}
        status, said = self.ask("POST", "/api/v2/authn/basic/login", json.dumps(asked))
        assert status == 200, said
        self.head["Authorization"] = f"Bearer {json.loads(said)['token']}"

    def ask(self, method: str, path: str, body: str = "") -> tuple[int, str]:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self._asked_once(method, path, body)
            except (OSError, http.client.HTTPException):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _asked_once(self, method: str, path: str, body: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, body, self.head)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()

    def submit(self, job: Mapping[str, object]) -> None:
        """Submit a job; one that already exists was taken by a server that was killed before it could say so."""
        status, said = self.ask("POST", "/api/v2/jobs", yaml.safe_dump(dict(job)))
        assert status in (202, 409), said

    def stop(self, key: str) -> None:
        """Stop a job; one that was stopped by the server that was killed may be asked to again."""
        status, said = self.ask("PUT", f"/api/v2/jobs/{key}/executionType", json.dumps({"value": "STOP"}))
        assert status in (200, 202), said

    def states(self) -> dict[str, str]:
        """All of the own jobs."""
        status, said = self.ask("GET", "/api/v2/jobs?limit=100")
        assert status == 200, said
        return {f"{job['username']}~{job['name']}": job["state"] for job in json.loads(said)}


class Watcher:
    """Every pod that there ever was, by polling: kwok's live for longer than a round."""

    def __init__(self, api: KubeApi) -> None:
        self.api = KubeApi(api.plane)
        self.pods: dict[str, Json] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            with contextlib.suppress(OSError, http.client.HTTPException, ApiError):
                self.pods.update({pod["metadata"]["uid"]: pod for pod in self.api.pods(SPACE)})

    def tries(self) -> Counter[tuple[str, ...]]:
        """How many pods each try of each task had: more than one is once too often."""
        found: Counter[tuple[str, ...]] = Counter()
        for pod in self.pods.values():
            noted, labels = pod["metadata"]["annotations"], pod["metadata"]["labels"]
            words = (labels["paictl.io/job"], labels["paictl.io/attempt"], noted["paictl.io/role"])
            index = noted.get("paictl.io/task", noted["batch.kubernetes.io/job-completion-index"])
            before = [
                noted.get(key, "0")
                for key in (
                    "paictl.io/retry",
                    "batch.kubernetes.io/job-index-failure-count",
                    "batch.kubernetes.io/job-index-ignored-failure-count",
                )
            ]
            found[*words, index, *before] += 1
        return found


def test_sixty_kills_lose_no_job_and_run_none_twice(rig: JobRig, server: Program, api: KubeApi) -> None:
    """Fifty jobs of four kinds by HTTP; after every kill the program starts again while the user goes on asking."""
    dice = random.Random(11)  # noqa: S311 - not for secrets
    wanted: dict[str, JobState] = {}
    cluster, user = opened(rig.plane), Client(server)
    programs = (rig.start_controller(), server)
    # what a thread has started ends with it (`Program`), so one thread is there for all of the test
    with ThreadPoolExecutor(1) as killer, Watcher(api) as watcher:
        for number in range(60):
            killed = killer.submit(_kill, dice.choices(programs, (2, 1))[0], dice.uniform(0, 0.5))
            if number < 50:
                kind = (JobState.SUCCEEDED, JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED)[number % 4]
                user.submit(_job(f"job{number}", kind, dice, gang=number % 5 != 0))
                wanted[f"ann~job{number}"] = kind
            stop = [key for key, kind in wanted.items() if kind is JobState.STOPPED]
            if stop and number % 3 == 0:
                user.stop(dice.choice(stop))
            _fail_some(api, wanted, dice)
            killed.result()
        for key in stop:
            user.stop(key)

        def over() -> bool:
            _fail_some(api, wanted, dice)
            return all(job.state.ended for job in cluster.jobs())

        until(over, 180, lambda: str([job for job in cluster.jobs() if not job.state.ended]))
        until(lambda: not live(api), PATIENCE, lambda: str(live(api)))
        until(lambda: all(job["status"].get("closed") for job in rig.jobs()), PATIENCE, "all are closed")
        assert {job.key: job.state for job in cluster.jobs()} == wanted
        assert user.states() == {key: kind.name for key, kind in wanted.items()}
        assert [task for task, number in watcher.tries().items() if number > 1] == []
        attempts = {job.key: job.attempt for job in cluster.jobs()}
        assert {attempts[key] for key, kind in wanted.items() if kind is JobState.FAILED} == {1}
        assert {attempts[key] for key, kind in wanted.items() if kind is JobState.SUCCEEDED} == {0}


def _kill(program: Program, after: float) -> None:
    time.sleep(after)
    program.kill()
    program.start()


def _job(name: str, kind: JobState, dice: random.Random, *, gang: bool) -> Json:
    lasting = f"sleep {dice.uniform(0.3, 3):.1f}" if kind is JobState.SUCCEEDED else "sleep 1h"
    roles = {
        "a": role(1, dice.choice((1, 1, 2)), commands=[lasting]),
        "b": role(dice.choice((1, 2)), 1, commands=[lasting]),
    }
    again = int(kind is JobState.FAILED)
    return dict(request(name, roles, vc=dice.choice("AB"), gang=gang, jobRetryCount=again).data)


def _fail_some(api: KubeApi, wanted: Mapping[str, JobState], dice: random.Random) -> None:
    """Some pods of the jobs that are to fail do."""
    for pod in api.pods(SPACE):
        about = pod["metadata"]
        if wanted.get(about["annotations"]["paictl.io/key"]) is not JobState.FAILED or END in about["annotations"]:
            continue
        if pod["status"]["phase"] == "Running" and not about.get("deletionTimestamp") and dice.random() < 0.5:
            with contextlib.suppress(ApiError):
                finish(api, about["name"], "5")
