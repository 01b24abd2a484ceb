"""What a lab learns of the server that runs in its shell: who asked for what, and which checks pass by it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from paictl.cli import console
from paictl.errors import PaictlError
from paictl.lab import requests
from paictl.lab.fitting import session_for
from paictl.lab.language import language_of
from paictl.lab.manifest import find_lab
from paictl.lab.requests import AskedRequest, is_worth_noting
from paictl.lab.workspace import Workspace, present_workspace
from paictl.server.app import AnsweredRequest, Extension


def extension_here() -> Extension | None:
    """What lets the lab of this shell see the requests to its server; None outside labs."""
    workspace = present_workspace()
    return None if workspace is None else extension_of(workspace)


def extension_of(workspace: Workspace) -> Extension:
    """The same for a lab's workspace. Checks are judged in a thread of their own: answers must not wait for them."""
    judge = ThreadPoolExecutor(1, "paictl-lab")

    def answered(request: AnsweredRequest) -> None:
        if not is_worth_noting(request.path):
            return
        _append(workspace.folder, request)
        if request.method != "GET":
            judge.submit(_settle, workspace)

    return Extension(answered=answered)


def _append(folder: Path, request: AnsweredRequest) -> None:
    try:
        requests.append(folder, AskedRequest(request.user, f"{request.method} {request.path}", request.status))
    except PaictlError as problem:  # the request itself succeeded
        console.info(f"lab: {problem}")


def _settle(workspace: Workspace) -> None:
    """Tick off what the request showed, as after a command."""
    lang = language_of(workspace.folder.parent, lab=workspace.lab_id)
    try:
        session = session_for(find_lab(workspace.lab_id), workspace.folder.parent)
        for check in session.observe():
            console.info(f"lab: ✓ {check.says.of(lang)}")
    except PaictlError as problem:
        console.info(f"lab: {problem}")
