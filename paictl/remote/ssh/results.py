"""What became of a command or a transfer on each of many hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from paictl.errors import ExitCode
from paictl.frozen import frozen


class CommandStatus(StrEnum):
    """How far it went; all but `done` mean that the command did not run to its end."""

    DONE = "done"
    UNKNOWN_KEY = "unknown-host-key"
    CHANGED_KEY = "changed-host-key"
    REFUSED = "refused"
    """The host does not take the user with this password or key."""
    NO_SUDO = "no-sudo"
    """Signed in, but not allowed to become root."""
    UNREACHABLE = "unreachable"
    LOST = "lost"
    """The link was cut or the host froze while the command ran: what it did is not known."""
    TIMEOUT = "timeout"
    """The command took longer than allowed; it may be running still."""
    FAILED = "failed"
    """A transfer that the host refused (no such folder, no rights, disk full, other checksum)."""


@frozen
class HostResult:
    """What became of it on a host; `code` is -1 unless `reach` is `DONE`.

    `message` and `hint` say why it went no further. `new_key` is the fingerprint of a key that was trusted now. `sent`
    and `ended` are instants by the clock here, in seconds since 1970: between them the host was at work.
    """

    host: str
    reach: CommandStatus
    code: int = -1
    stdout: str = ""
    stderr: str = ""
    message: str = ""
    hint: str = ""
    new_key: str = ""
    sent: float = 0.0
    ended: float = 0.0

    @property
    def seconds(self) -> float:
        """How long it took there."""
        return round(self.ended - self.sent, 3)

    @property
    def ok(self) -> bool:
        """Whether all went well there."""
        return self.reach is CommandStatus.DONE and self.code == 0

    @property
    def answered(self) -> bool:
        """Whether the host did something; a failure is an answer too."""
        return self.reach in (CommandStatus.DONE, CommandStatus.TIMEOUT, CommandStatus.FAILED, CommandStatus.NO_SUDO)


def exit_code(results: Mapping[str, HostResult] | Iterable[HostResult]) -> ExitCode:
    """One exit code for many hosts: 0 all well, 1 some failed, 3 some did not answer, 4 none did."""
    outcomes = list(results.values() if isinstance(results, Mapping) else results)
    answered = [outcome for outcome in outcomes if outcome.answered]
    if len(answered) < len(outcomes):
        return ExitCode.PARTIAL if answered else ExitCode.UNREACHABLE
    return ExitCode.OK if all(outcome.ok for outcome in outcomes) else ExitCode.NEGATIVE
