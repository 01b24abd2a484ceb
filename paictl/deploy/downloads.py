"""How machines download images: mirrors, credentials of registries, proxies; and the files that say so to containerd.

Passwords never stand in what is kept of a run: files of hosts hold variables of Ansible in their place, whose values
reach it in a file that only the owner can read. On the machines only root reads them.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text

REGISTRIES: Final = "/etc/containerd/conf.d/paictl-registries.toml"
PROXY_VALUES: Final = "/etc/paictl/proxy.env"
"""Apart from the units: anybody may ask systemd for what their `Environment=` says."""
PROXY_UNITS: Final = tuple(
    f"/etc/systemd/system/{unit}.service.d/paictl-proxy.conf" for unit in ("containerd", "kubelet")
)
IMAGES: Final = "io.containerd.cri.v1.images"
"""The plug-in of containerd that pulls images for kubelet."""
_HUB: Final = "registry-1.docker.io"
"""Where Docker Hub, docker.io in the names of images, answers."""
_HUB_NAMES: Final = ("docker.io", "index.docker.io")
_LAST_MINOR: Final = 6
"""containerd 2.7 drops credentials from its own configuration, and has nothing in their place."""
_LOCAL: Final = ("localhost", "127.0.0.1", "::1", ".svc")
_BITS: Final = {4: 24, 6: 64}
"""The network around a machine that no proxy is asked for; that of its link is not known before it is looked at."""

Values = Mapping[str, Any]


@frozen
class RegistryAccount:
    """An account at a registry or mirror."""

    username: str
    password: str = field(repr=False)


@frozen
class Proxies:
    """Proxies for containerd and kubelet; `direct` is what is reached without them, as `NO_PROXY` has it."""

    http: str = field(default="", repr=False)
    https: str = field(default="", repr=False)
    direct: tuple[str, ...] = ()

    @property
    def passwords(self) -> tuple[str, ...]:
        """The passwords in both addresses, as they are written there."""
        passwords = (urlsplit(url).password for url in (self.http, self.https))
        return tuple(dict.fromkeys(password for password in passwords if password))


@frozen
class Mirrors:
    """Mirrors by registry, in the order in which they are asked, and the accounts by host of registry or mirror."""

    urls: Mapping[str, tuple[str, ...]]
    accounts: Mapping[str, RegistryAccount]


def mirrors_of(section: Values, mirrors: Mapping[str, tuple[str, ...]], folder: Path, where: str) -> Mirrors:
    """What `deploy:` says about registries; an account in a mirror's address is taken out of it.

    Files are relative to `folder`. Raises `PaictlError` for a password file that cannot be used, and for a host with
    two accounts.
    """
    accounts = {
        host: RegistryAccount(entry["username"], _password(folder / Path(entry["password_file"]).expanduser(), host))
        for host, entry in (section.get("registry_credentials") or {}).items()
    }
    plain: dict[str, tuple[str, ...]] = {}
    for registry, urls in mirrors.items():
        for url in urls:
            bare, account = _taken_out(url)
            plain[registry] = (*plain.get(registry, ()), bare)
            if account is None:
                continue
            host = urlsplit(bare).netloc
            if accounts.setdefault(host, account) != account:
                message = text(
                    "{host} has two accounts: the addresses of mirrors and registry_credentials differ", host=host
                )
                raise PaictlError(message, where=where, hint=text("remove user and password from the mirror's address"))
    return Mirrors(plain, accounts)


def proxies_of(section: Values, where: str) -> Proxies | None:
    """The proxies of `deploy:`; None without any. Raises `PaictlError` for exceptions (no_proxy) without a proxy."""
    entries = section.get("proxy")
    if not entries:
        return None
    proxies = Proxies(entries.get("http") or "", entries.get("https") or "", tuple(entries.get("no_proxy") or ()))
    if not (proxies.http or proxies.https):
        raise PaictlError(
            text("deploy.proxy names no proxy"), where=where, hint=text("add http or https, or remove it")
        )
    return proxies


def _taken_out(url: str) -> tuple[str, RegistryAccount | None]:
    """An address without its user and password, and these."""
    parts = urlsplit(url)
    if parts.password is None:
        return url, None
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return bare, RegistryAccount(unquote(parts.username or ""), unquote(parts.password))


def _password(path: Path, host: str) -> str:
    key = f"deploy.registry_credentials.{host}.password_file"
    try:
        mode = path.stat().st_mode
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        message = text("{key}: the file cannot be read: {reason}", key=key, reason=error.strerror)
        raise PaictlError(message, where=str(path)) from None
    except UnicodeDecodeError:
        raise PaictlError(text("{key}: the file is not text", key=key), where=str(path)) from None
    if mode & 0o077:
        message = text("{key}: other users can read the password", key=key)
        raise PaictlError(message, where=str(path), hint=f"chmod 600 {path}")
    password = content.removesuffix("\n").removesuffix("\r")
    if not password or not password.isprintable():
        message = text("{key}: the file must contain the password, on one line", key=key)
        raise PaictlError(message, where=str(path))
    return password


def hidden(accounts: Mapping[str, RegistryAccount], proxies: Proxies | None) -> dict[str, str]:
    """What stands for each password in files of the hosts: variable → text that takes its place there."""
    passwords = dict.fromkeys(account.password for account in accounts.values())
    variables = {
        f"paictl_registry_password_{number}": _quoted(password)[1:-1] for number, password in enumerate(passwords)
    }
    if proxies is not None:
        variables |= {f"paictl_proxy_password_{number}": password for number, password in enumerate(proxies.passwords)}
    return variables


def secrets_of(accounts: Mapping[str, RegistryAccount], proxies: Proxies | None) -> set[str]:
    """The passwords in all forms in which they are written."""
    forms = {*(account.password for account in accounts.values()), *hidden(accounts, proxies).values()}
    return forms | {unquote(password) for password in (proxies.passwords if proxies else ())}


def mirror_files(mirrors: Mapping[str, tuple[str, ...]], insecure: Iterable[str], mark: str) -> dict[str, str]:
    """containerd's hosts.toml for each registry that has mirrors, or is spoken to without TLS."""
    plain = tuple(insecure)
    files = {}
    for registry in dict.fromkeys((*mirrors, *plain)):
        own = f"{'http' if registry in plain else 'https'}://{server_of(registry)}"
        lines = [mark, f"server = {json.dumps(own)}"]
        lines += [
            f'\n[host.{json.dumps(url)}]\n  capabilities = ["pull", "resolve"]' for url in mirrors.get(registry, ())
        ]
        files[f"/etc/containerd/certs.d/{registry}/hosts.toml"] = "\n".join(lines) + "\n"
    return files


def account_tables(accounts: Mapping[str, RegistryAccount], number: str, where: str) -> dict[str, Any]:
    """The accounts as settings of containerd's plug-in for images, their passwords as variables of Ansible.

    `number` is containerd's version, `where` the place of its artifact; raises `PaictlError` for one that takes none.
    """
    major, minor = map(int, number.removeprefix("v").split(".")[:2])
    if (major, minor) > (2, _LAST_MINOR):
        message = text("containerd {number} takes no registry_credentials", number=number)
        raise PaictlError(message, where=where, hint=text("use imagePullSecrets of Kubernetes, or containerd 2.6"))
    variables = {value: name for name, value in hidden(accounts, None).items()}
    configs = {
        server_of(host): {
            "auth": {
                "username": account.username,
                "password": f"{{{{ {variables[_quoted(account.password)[1:-1]]} }}}}",
            }
        }
        for host, account in sorted(accounts.items())
    }
    return {IMAGES: {"registry": {"configs": configs}}}


def proxy_files(proxies: Proxies, direct: Iterable[str], mark: str) -> dict[str, str]:
    """The files that tell containerd and kubelet about proxies, with Ansible variables for passwords."""
    words = {f":{password}@": f":{{{{ {name} }}}}@" for name, password in hidden({}, proxies).items()}
    lines = [mark]
    for names, url in (("HTTP_PROXY http_proxy", proxies.http), ("HTTPS_PROXY https_proxy", proxies.https)):
        for old, new in words.items():
            url = url.replace(old, new)
        lines += [f'{name}="{url}"' for name in names.split() if url]
    without = ",".join(dict.fromkeys((*direct, *proxies.direct)))
    lines += [f'{name}="{without}"' for name in ("NO_PROXY", "no_proxy")]
    unit = f"{mark}\n[Service]\nEnvironmentFile={PROXY_VALUES}\n"
    return {PROXY_VALUES: "\n".join(lines) + "\n", **dict.fromkeys(PROXY_UNITS, unit)}


def direct_hosts(
    domain: str, networks: Iterable[str], addresses: Iterable[str], hosts: Iterable[str]
) -> tuple[str, ...]:
    """What is reached without a proxy in any case: the machine itself, the cluster's names, `networks` and `hosts`.

    Around each of `addresses` also its /24 (IPv6: /64), so that another machine changes nothing on the others.
    """
    around = dict.fromkeys(
        str(ipaddress.ip_network((address, _BITS[ipaddress.ip_address(address).version]), strict=False))
        for address in addresses
    )
    return (*_LOCAL, f".{domain}", *networks, *around, *hosts)


def without_password(url: str) -> str:
    """An address as it may be kept: with its user, without the password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return urlunsplit(parts._replace(netloc=f"{parts.username}@{parts.netloc.rpartition('@')[2]}"))


def server_of(registry: str) -> str:
    """Where a registry of this name answers."""
    return _HUB if registry in _HUB_NAMES else registry


def _quoted(value: str) -> str:
    """A text as TOML and JSON write it."""
    return json.dumps(value, ensure_ascii=False)
