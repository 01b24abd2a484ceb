"""The way to an API server, and what is raised when it does not answer or does not agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from paictl.cluster.kubernetes.connection import cluster_errors, kubeconfig_files
from paictl.cluster.values import ClusterError, UnreachableError
from paictl.remote.kube.client import KubeError, NoAnswerError


@pytest.mark.parametrize(
    ("given", "variable", "files"),
    [
        (None, None, ["{home}/.kube/config"]),
        (None, "a:~/b:", ["{here}/a", "{home}/b"]),
        ("c", "a", ["{here}/c"]),
        (None, "", ["{home}/.kube/config"]),
    ],
)
def test_an_option_goes_before_the_variable_and_that_before_the_usual_place(
    given: str | None, variable: str | None, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    if variable is not None:
        monkeypatch.setenv("KUBECONFIG", variable)
    assert kubeconfig_files(given) == ":".join(files).format(home="/home/ann", here=tmp_path)


@pytest.mark.parametrize(
    ("error", "unreachable"),
    [
        (KubeError("no", status=403), False),
        (KubeError("no", status=499), False),
        (KubeError("no", status=500), True),
        (KubeError("no", status=503), True),
        (NoAnswerError("refused"), True),
    ],
)
def test_a_server_that_refuses_is_told_from_one_that_cannot_answer(error: Exception, unreachable: bool) -> None:
    with pytest.raises(ClusterError if not unreachable else UnreachableError) as raised, cluster_errors():
        raise error
    assert isinstance(raised.value, UnreachableError) is unreachable
