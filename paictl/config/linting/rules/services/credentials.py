"""Secrets, certificates, sign-in and mail of the services."""

from __future__ import annotations

import re

from paictl.config.linting.rule import ERROR, WARNING, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import dotted, shown
from paictl.config.models.placeholders import is_placeholder
from paictl.config.models.services import described_keys
from paictl.config.reading.load import is_file
from paictl.config.reading.nodes import MappingNode, ScalarNode, SequenceNode
from paictl.i18n import text


@rule("SVC704", "certificate-file", WARNING)
def certificate_file(document: Document) -> Findings:
    """The file of a certificate or of its key is missing.

    Why: the file is copied when pylon starts, and HTTPS fails then. The rule looks for it on this machine: validate
    where you deploy from. Relative paths are left alone. paictl itself has no pylon any more, see `service-gone`.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        pylon:  # paictl: ignore=SVC718
          ssl:
            port: 443
            crt_name: pai.crt
            crt_path: certificates/pai.crt
            key_name: pai.key
            key_path: certificates/pai.key

    Fails with::

        # services-configuration.yaml
        -    crt_path: certificates/pai.crt
        +    crt_path: /no/such/folder/pai.crt
        @@
        -    key_path: certificates/pai.key
        +    key_path: /no/such/folder/pai.key
    """
    # Every absolute path under pylon.ssl that is no file here.
    ssl = document.top.at("pylon", "ssl")
    for key in ("crt_path", "key_path"):
        path = ssl.text(key)
        if path is not None and path.text.startswith("/") and not is_file(path.text):
            yield Finding(
                path,
                text("{key} {path} does not exist on this machine", key=key, path=path.text),
                "correct the path, or copy the file here",
            )


_OF_OPENPAI = frozenset({"pai-secret", "hellopai", "hello", "rootpass", "smbpwd", "passwd", "admin-password"})


_OF_EVERYBODY = frozenset(
    {"password", "pass", "admin", "root", "test", "123456", "12345678", "changeme", "change-me", "secret", "openpai"}
)


_USERS = {
    "default-pai-admin-password": "default-pai-admin-username",
    "password": "username",
    "passwd": "user",
    "smbpwd": "smbuser",
    "domainpwd": "domainuser",
    "admin_password": "admin_name",
    "smtp-auth-password": "smtp-auth-username",
}


@rule("SVC705", "default-secret", WARNING)
def default_secret(document: Document) -> Findings:
    """A password or key is blank, a well-known default, or the same as its user.

    Why: the defaults of OpenPAI are public. Anyone who knows `jwt-secret` can sign a token that makes them an
    administrator.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
          jwt-secret: 5f0c27-own

    Fails with::

        # services-configuration.yaml
        -  jwt-secret: 5f0c27-own
        +  jwt-secret: pai-secret
    """
    # Every secret that anybody would try first; messages never show it.
    for path, entry, schema in described_keys(document):
        secret = entry.value
        if not schema.get("x-secret") or not isinstance(secret, ScalarNode) or not isinstance(secret.value, str):
            continue
        reason = _weakness(secret.value, _user(document, path))
        if reason:
            yield Finding(
                secret, text("{path} is {reason}", path=dotted(path), reason=reason), "choose a secret of your own"
            )


def _weakness(secret: str, user: str) -> str | None:
    if secret and not secret.strip():
        return text("blank")
    if secret.lower() in _OF_OPENPAI | _OF_EVERYBODY:
        return text("a well-known default")
    return text("the same as the user") if user and secret == user else None


def _user(document: Document, path: tuple[str | int, ...]) -> str:
    """The user beside a password; empty where there is none."""
    holder = document.top.at(*(str(step) for step in path[:-1]))
    user = holder.text(_USERS.get(str(path[-1]), ""))
    return user.text if user else ""


_OF_SERVICES = re.compile(
    r"\byour[-_ ]|\$\{[^}]*\}|\{tenantID\}|^([xy])\1{3,}$|@example\.(com|org)$|^ip-address$", re.IGNORECASE
)


_TEXTS = (("prometheus", "customized-alerts"), ("hivedscheduler", "config"))


@rule("SVC706", "placeholder", WARNING)
def placeholder(document: Document) -> Findings:
    """A value is still the placeholder of a template.

    Why: OpenPAI uses it literally: an administrator called `your_default_pai_admin_username`, mail to example.com.

    Fails with::

        # services-configuration.yaml
        -  default-pai-admin-username: root-of-pai
        +  default-pai-admin-username: your_default_pai_admin_username
    """
    # Every string that looks like one to be filled in; texts of other languages are left alone.
    for path, entry, schema in described_keys(document):
        values = entry.value.scalars() if isinstance(entry.value, SequenceNode) else [entry.value]
        for value in values:
            if path in _TEXTS or not isinstance(value, ScalarNode) or not isinstance(value.value, str):
                continue
            if is_placeholder(value.value) or _OF_SERVICES.search(value.value):
                what = (
                    text("a placeholder")
                    if schema.get("x-secret")
                    else text("the placeholder {value}", value=shown(value))
                )
                yield Finding(
                    value, text("{path} is still {what}", path=dotted(path), what=what), "fill in your own value"
                )


_KEYS = ("admin-receiver", "smtp-host", "smtp-port", "smtp-from", "smtp-auth-username", "smtp-auth-password")


@rule("SVC707", "incomplete-mail", ERROR)
def incomplete_mail(document: Document) -> Findings:
    """The mail settings of the alert manager are incomplete.

    Why: if one of the six keys is missing, OpenPAI silently sends no mail at all.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        alert-manager:
          alert-handler:
            email-configs:
              admin-receiver: ops@mail.internal
              smtp-host: smtp.mail.internal
              smtp-port: 587
              smtp-from: pai@mail.internal
              smtp-auth-username: pai
              smtp-auth-password: kept-elsewhere

    Fails with::

        # services-configuration.yaml
        -      smtp-port: 587
    """
    # The keys that alert-handler.email-configs lacks, in one finding.
    handler = document.top.at("alert-manager", "alert-handler")
    mail = handler.mapping("email-configs")
    missing = [key for key in _KEYS if not _is_set(mail, key)]
    at = handler.key("email-configs")
    if missing and at is not None and not isinstance(handler.get("email-configs"), SequenceNode):
        yield Finding(
            at,
            text("mail stays off, because email-configs lacks {missing}", missing=", ".join(missing)),
            "fill in all six keys",
        )


def _is_set(mail: MappingNode, key: str) -> bool:
    value = mail.get(key)
    return value is not None and not (isinstance(value, ScalarNode) and value.tag == "null")


_NEED_TOKEN = ("stop-jobs", "tag-jobs", "email-user")


_HINT = "add pai-bearer-token: the token of an application, made on the user's page"


@rule("SVC708", "missing-token", ERROR)
def missing_token(document: Document) -> Findings:
    """The alert manager is configured to do something that needs a token, but has none.

    Why: reports of cluster utilization, stopping and tagging jobs, and mail to users ask the rest server, for which
    OpenPAI wants `pai-bearer-token`; without it they are silently left out.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        alert-manager:
          pai-bearer-token: kept-elsewhere
          cluster-utilization: {schedule: '0 0 * * *'}

    Fails with::

        # services-configuration.yaml
        -  pai-bearer-token: kept-elsewhere
    """
    # Every setting that stays without effect for want of a token.
    alerts = document.top.mapping("alert-manager")
    if "pai-bearer-token" in alerts or "pai-bearer-token" in alerts.mapping("alert-handler"):
        return
    schedule = alerts.mapping("cluster-utilization").key("schedule")
    if schedule is not None:
        yield Finding(schedule, "the report of cluster utilization stays off without pai-bearer-token", _HINT)
    for receiver in alerts.sequence("customized-receivers").mappings():
        for entry in receiver.mapping("actions"):
            if entry.name in _NEED_TOKEN:
                yield Finding(
                    entry.key,
                    text("the action {entry} has no effect without pai-bearer-token", entry=entry.name),
                    _HINT,
                )


_DIRECTORY = ("wellKnownURL", "tenantID", "clientID", "clientSecret")


_WINBIND = ("winbind-server-address", "winbind-server-url")


@rule("SVC712", "incomplete-login", ERROR)
def incomplete_login(document: Document) -> Findings:
    """Users sign in with another provider, but its settings are missing.

    Why: OpenPAI stops at the first missing key, one deployment after the other. `ms-graph` asks the directory that OIDC
    logs in to, `winbind` a server of its own.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        authentication:
          OIDC: false
          group-manager:
            group-data-source: basic
            admin-group: {groupname: admins, extension: {acls: {admin: true}}}
            default-group: {groupname: everybody, extension: {acls: {admin: false}}}

    Fails::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        authentication:
          OIDC: true
          OIDC-type: AAD
    """
    # What OIDC: true and the source of groups need and do not have.
    login = document.top.mapping("authentication")
    oidc = login.scalar("OIDC")
    if oidc is not None and oidc.value is True:
        lacking = [key for key in ("OIDC-type", "AAD") if key not in login]
        lacking += [f"AAD.{key}" for key in _DIRECTORY if "AAD" in login and key not in login.mapping("AAD")]
        if "AAD.wellKnownURL" in lacking and "identityMetadata" in login.mapping("AAD"):
            lacking.remove("AAD.wellKnownURL")
        if lacking:
            yield Finding(
                login.key("OIDC") or oidc,
                text("OIDC is true, but lacks {lacking}", lacking=", ".join(lacking)),
                "add what is missing",
            )
    groups = login.mapping("group-manager")
    source = groups.text("group-data-source")
    if source is None:
        return
    if source.text == "winbind" and not any(key in groups for key in _WINBIND):
        yield Finding(
            source, "groups come from winbind, but its address is missing", text("add {winbind}", winbind=_WINBIND[0])
        )
    if source.text == "ms-graph" and (oidc is None or oidc.value is not True):
        yield Finding(source, "groups come from ms-graph, but OIDC is not true", "set authentication.OIDC to true")


_LOG_KEYS = ("log_azure_storage_account", "log_azure_storage_account_key", "log_azure_storage_container_name")


@rule("SVC715", "incomplete-storage", ERROR)
def incomplete_storage(document: Document) -> Findings:
    """Azure storage is chosen, but account, key or container is not given.

    Why: the image cache and the log server start without an error, and fail at the first image or log.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        docker-cache: {enabled: true, storage_backend: filesystem}

    Fails with::

        # services-configuration.yaml
        -docker-cache: {enabled: true, storage_backend: filesystem}
        +docker-cache:
        +  enabled: true
        +  storage_backend: azure
    """
    # What the image cache and the log server need for Azure and do not have.
    cache = document.top.mapping("docker-cache")
    enabled, backend = cache.scalar("enabled"), cache.text("storage_backend")
    if enabled is not None and enabled.value is True and (backend is None or backend.text == "azure"):
        at = cache.key("storage_backend") or cache.key("enabled") or enabled
        yield from _lacking(cache, at, ("azure_account_name", "azure_account_key"))
    rest = document.top.mapping("rest-server")
    logs = rest.text("log-server")
    if logs is not None and logs.text == "azure_storage":
        yield from _lacking(rest, rest.key("log-server") or logs, _LOG_KEYS)


def _lacking(section: MappingNode, at: ScalarNode, keys: tuple[str, ...]) -> Findings:
    missing = [key for key in keys if not (value := section.text(key)) or not value.text.strip()]
    if missing:
        yield Finding(at, text("Azure storage needs {missing}", missing=", ".join(missing)), "fill them in")
