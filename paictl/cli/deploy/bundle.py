"""`paictl deploy bundle create|verify|list`: the artifact folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.console import Output, localized
from paictl.cli.options import OutputOption
from paictl.deploy.artifacts import faults_of, read_lock
from paictl.errors import ExitCode, PaictlError
from paictl.i18n import text
from paictl.places import cache_folder
from paictl.remote.registry import image_name, registry_host

if TYPE_CHECKING:
    from paictl.deploy.gather import WantedImage
    from paictl.operate.bundling import ServiceImage

app = App(help="Create, verify and list the artifact folder: all files that a deployment puts on machines.")

Folder = Annotated[Path | None, typer.Argument(metavar="[DIR]", help="Folder (default: ~/.cache/paictl/artifacts).")]


@app.command(
    epilog="""
    paictl deploy bundle create -o bundle/
    paictl deploy bundle create -o bundle/ --source 'https://mirror.example/{file}' --lock old/artifacts.json
    paictl deploy bundle create -o bundle/ --source /media/usb/bundle --with flannel --with gpu
    paictl deploy bundle create -o bundle/ --services monitoring,device-plugin
    paictl deploy bundle create -o bundle/ --services all --system ubuntu24.04
    paictl deploy bundle create -o bundle/ --services all -p cluster/ --mirror quay.io=https://mirror.example
"""
)
def create(
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="DIR", help="Output folder.")] = None,
    source: Annotated[
        str,
        typer.Option(
            "--source",
            metavar="WHERE",
            help="Mirror with {name}, {version}, {arch}, {file}, or a folder (default: the projects' download sites).",
        ),
    ] = "",
    kubernetes: Annotated[str, typer.Option("--kubernetes", metavar="VERSION", help="Kubernetes version.")] = "",
    arch: Annotated[list[str] | None, typer.Option("--arch", help="amd64 or arm64; may be repeated.")] = None,
    extra: Annotated[
        list[str] | None, typer.Option("--with", metavar="WHAT", help="flannel, calico or gpu; may be repeated.")
    ] = None,
    services: Annotated[
        list[str] | None,
        typer.Option(
            "--services",
            metavar="NAME,...",
            help="Images of these services and of those they need; also: monitoring, all. May be repeated.",
        ),
    ] = None,
    folder: Annotated[
        str,
        typer.Option("--path", "-p", metavar="DIR", help="Configuration that says which images the services use."),
    ] = "",
    system: Annotated[
        list[str] | None,
        typer.Option(
            "--system", metavar="SYSTEM", help="Only GPU drivers for this system, such as ubuntu24.04; may be repeated."
        ),
    ] = None,
    mirror: Annotated[
        list[str] | None,
        typer.Option("--mirror", metavar="HOST=URL", help="Pull a registry's images from URL; may be repeated."),
    ] = None,
    lock: Annotated[
        Path | None,
        typer.Option("--lock", metavar="FILE", help="A lock file (artifacts.json): accept only these exact files."),
    ] = None,
    form: Annotated[Output, typer.Option("--format", "-f", help="Output format.")] = Output.TABLE,
) -> None:
    """Download all files, verify them, and write the lock file; correct files are kept.

    With --services, container images are pulled from their registries, with the logins of ~/.docker/config.json.
    """
    from paictl.deploy.gather import WantedImage, catalogue, gather

    into = out or default_folder()
    arches = arch or ["amd64"]
    wanted = catalogue(kubernetes, arches, extra or [])
    mirrors = _mirrors(mirror or [])
    images = [
        WantedImage(image.name, image.reference, arch, mirrors.get(image_name(image.reference).host, ""))
        for image in _images(services or [], folder, mirrors, system or [])
        for arch in arches
    ]
    _need_used(mirrors, images)
    made = gather(wanted, source, into, lock, console.info, images)
    if form is not Output.TABLE:
        console.write_data([asdict(artifact) for artifact in made.all], form)
        return
    console.write(localized("{count} files in {folder}", count=len(made.all), folder=into))


def _mirrors(words: Sequence[str]) -> dict[str, str]:
    """Registry → the address of its mirror; raises `PaictlError` for what is neither."""
    mirrors = {}
    for word in words:
        host, _, url = word.partition("=")
        if not host or not url.startswith(("http://", "https://")) or not urlsplit(url).hostname or "@" in url:
            raise PaictlError(
                text("--mirror {word!r}: expected HOST=URL", word=word),
                hint=text("for example --mirror quay.io=https://mirror.example; log in with: docker login"),
            )
        mirrors[registry_host(host)] = url
    return mirrors


def _need_used(mirrors: Mapping[str, str], images: Sequence[WantedImage]) -> None:
    """Raise `PaictlError` for a mirror of a registry that no image comes from: its name is probably misspelt."""
    hosts = {image_name(image.reference).host for image in images}
    if unused := sorted(set(mirrors) - hosts):
        raise PaictlError(
            text("--mirror {host}: no image comes from there", host=unused[0]),
            hint=text("images come from: {hosts}", hosts=", ".join(sorted(hosts))),
        )


def _images(
    services: Sequence[str], folder: str, mirrors: Mapping[str, str], systems: Sequence[str]
) -> Sequence[ServiceImage]:
    """The images that the services need; warns where drivers for all systems are taken because none was named."""
    from paictl.operate.bundling import driver_systems, service_images

    words = [name for word in services for name in word.split(",") if name]
    if not words and (folder or mirrors or systems):
        raise PaictlError(text("--path, --system and --mirror need --services"))
    systems = [name for word in systems for name in word.split(",") if name]
    images = service_images(words, folder, systems) if words else ()
    drivers = driver_systems(images)
    if systems and not drivers:
        console.warning(text("--system has no effect: none of the services installs a GPU driver"))
    elif not systems and len(drivers) > 1:
        console.warning(
            text(
                "GPU drivers for all systems are downloaded ({systems}): the host lists do not say which "
                "your workers run; name them with --system",
                systems=", ".join(drivers),
            )
        )
    return images


@app.command(epilog="paictl deploy bundle verify bundle/")
def verify(folder: Folder = None, output: OutputOption = Output.TABLE) -> None:
    """Compare every file with the lock file; exit code 1 if one is missing or differs."""
    artifacts = read_lock(folder or default_folder())
    faults = faults_of(artifacts)
    if output is not Output.TABLE:
        console.write_data({"files": len(artifacts.all), "faults": [asdict(fault) for fault in faults]}, output)
    else:
        for fault in faults:
            console.write(localized(fault.sentence))
        all_of_them = len(artifacts.all)
        console.write(localized("{count} of {all} files are right", count=all_of_them - len(faults), all=all_of_them))
    raise typer.Exit(ExitCode.NEGATIVE if faults else ExitCode.OK)


@app.command("list", epilog="paictl deploy bundle list bundle/ -o json")
def list_files(folder: Folder = None, output: OutputOption = Output.TABLE) -> None:
    """List the files of a folder by name, version and where they came from."""
    artifacts = read_lock(folder or default_folder())
    if output is not Output.TABLE:
        console.write_data([asdict(artifact) for artifact in artifacts.all], output)
        return
    rows = [
        (
            artifact.name,
            artifact.kind.value,
            artifact.version or "-",
            artifact.arch,
            artifact.sha256[:12],
            artifact.path,
        )
        for artifact in artifacts.all
    ]
    console.write_table(("NAME", "KIND", "VERSION", "ARCH", "SHA-256", "FILE"), rows)


def default_folder() -> Path:
    """Where a folder is looked for that is not named."""
    return cache_folder() / "artifacts"
