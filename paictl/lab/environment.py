"""The machine on which labs were done, for the report's table."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from paictl import __version__


def environment() -> dict[str, str]:
    """What the textbook asks for, by the key of the report's words; empty where the machine does not tell."""
    return {
        "cpu": f"{_cpu()}, {os.cpu_count() or 1} × vCPU",
        "memory": _memory(),
        "gpu": _gpus(),
        "os": _system(),
        "driver": _nvidia("driver_version"),
        "cuda": _cuda(),
        "runtime": _runtimes(),
        "python": f"Python {platform.python_version()}",
        "paictl": f"paictl {__version__}",
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return _sysctl("machdep.cpu.brand_string") or platform.processor() or platform.machine()


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):  # the system does not count its pages
        output = _sysctl("hw.memsize")
        size = int(output) if output.isdecimal() else 0
    return f"{size / 2**30:.0f} GiB" if size > 0 else ""


def _sysctl(name: str) -> str:
    """What macOS knows of its machine; empty elsewhere."""
    return _output(["/usr/sbin/sysctl", "-n", name]).strip() if platform.system() == "Darwin" else ""


def _gpus() -> str:
    """The GPUs that nvidia-smi lists, one by one."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    return "; ".join(line.partition(" (")[0] for line in _output([program, "-L"]).splitlines())


def _nvidia(field: str) -> str:
    """A fact of all GPUs, each value once."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    lines = _output([program, f"--query-gpu={field}", "--format=csv,noheader"]).splitlines()
    return ", ".join(dict.fromkeys(line.strip() for line in lines if line.strip()))


def _cuda() -> str:
    """The newest CUDA that the driver can run, as nvidia-smi writes above its table."""
    program = shutil.which("nvidia-smi")
    match = re.search(r"CUDA Version: *([\d.]+)", _output([program])) if program else None
    return match[1] if match else ""


def _runtimes() -> str:
    """The container runtimes of this machine, with their versions."""
    runtimes = []
    for name in ("containerd", "docker", "podman"):
        program = shutil.which(name)
        version = re.search(r"\bv?(\d+\.\d+[\w.+~-]*)", _output([program, "--version"])) if program else None
        runtimes += [f"{name} {version[1]}"] if version else []
    return ", ".join(runtimes)


def _output(command: list[str]) -> str:
    """What a program prints; empty if it cannot tell."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout  # noqa: S603
    except (subprocess.SubprocessError, OSError, UnicodeDecodeError):
        return ""


def _system() -> str:
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:  # not on Linux
        name = f"macOS {platform.mac_ver()[0]}" if platform.mac_ver()[0] else ""
    kernel = f"{platform.system()} {platform.release()}"
    return f"{name} ({kernel})" if name else kernel
