"""Users are to log in elsewhere, but it is not said where.

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

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule

_DIRECTORY = ("wellKnownURL", "tenantID", "clientID", "clientSecret")
_WINBIND = ("winbind-server-address", "winbind-server-url")


@rule("SVC712", "incomplete-login", ERROR)
def check(document: Document) -> Findings:
    """What OIDC: true and the source of groups need and do not have."""
    login = document.top.mapping("authentication")
    oidc = login.scalar("OIDC")
    if oidc is not None and oidc.value is True:
        lacking = [key for key in ("OIDC-type", "AAD") if key not in login]
        lacking += [f"AAD.{key}" for key in _DIRECTORY if "AAD" in login and key not in login.mapping("AAD")]
        if "AAD.wellKnownURL" in lacking and "identityMetadata" in login.mapping("AAD"):
            lacking.remove("AAD.wellKnownURL")
        if lacking:
            yield Finding(
                login.key("OIDC") or oidc, f"OIDC is true, but lacks {', '.join(lacking)}", "add what is lacking"
            )
    groups = login.mapping("group-manager")
    source = groups.text("group-data-source")
    if source is None:
        return
    if source.text == "winbind" and not any(key in groups for key in _WINBIND):
        yield Finding(source, "groups come from winbind, but its address is missing", f"add {_WINBIND[0]}")
    if source.text == "ms-graph" and (oidc is None or oidc.value is not True):
        yield Finding(source, "groups come from ms-graph, but OIDC is not true", "set authentication.OIDC to true")
