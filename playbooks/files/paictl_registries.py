# Part of paictl: for `deploy verify`. Sent over stdin with its wish, Python 3.8 and newer, nothing else. Only asks.
"""Whether registries take their accounts from this machine, through its proxies: `main([{url, username, password}])`.

Prints a list of [state, detail] as JSON: ["ok", ""], ["refused", "401"] or ["failed", why].
"""

import base64
import ipaddress
import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

PROXIES = "/etc/paictl/proxy.env"
SECONDS = 10


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """The account is for the registry, not for where it leads."""

    def redirect_request(self, *_):
        """Stay."""


def proxies(path=PROXIES):
    """The variables in the file of proxies, as systemd reads it; none without the file."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file if "=" in line and not line.startswith("#")]
    except OSError:
        return {}
    return {name: value.strip('"') for name, value in (line.split("=", 1) for line in lines)}


def is_direct(host, without):
    """Whether an address is in a network that is reached without a proxy; names are urllib's matter."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    for one in without.split(","):
        try:
            if address in ipaddress.ip_network(one, strict=False):
                return True
        except ValueError:
            continue
    return False


def ask(url, authorization=""):
    """Status, challenge and body of an answer."""
    direct = is_direct(urllib.parse.urlsplit(url).hostname or "", os.environ.get("no_proxy", ""))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({} if direct else None), NoRedirect)
    headers = {"Authorization": authorization} if authorization else {}
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=SECONDS) as answer:
            return answer.status, "", answer.read(1 << 20)
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("WWW-Authenticate", ""), b""


def token(challenge, basic, schemes):
    """The token that a service gives to an account, ready to be sent; empty where it gives none.

    A registry with TLS may not send the account to a service without it: `schemes` are those that are good enough.
    """
    values = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if not values.get("realm", "").startswith(schemes):
        return ""
    query = urllib.parse.urlencode({"service": values["service"]} if "service" in values else {})
    status, _, body = ask(values["realm"] + ("?" + query if query else ""), basic)
    if status != 200:
        return ""
    said = json.loads(body)
    return "Bearer " + (said.get("token") or said.get("access_token") or "")


def tried(one):
    """What came of one account."""
    basic = "Basic " + base64.b64encode((one["username"] + ":" + one["password"]).encode()).decode()
    try:
        status, challenge, _ = ask(one["url"])
        if status == 401 and challenge.lower().startswith("bearer"):
            schemes = ("https://",) if one["url"].startswith("https://") else ("http://", "https://")
            given = token(challenge, basic, schemes)
            status = ask(one["url"], given)[0] if given else 401
        elif status == 401:
            status = ask(one["url"], basic)[0]
    except (OSError, ValueError) as error:
        return ["failed", str(getattr(error, "reason", "") or error)]
    if status in (401, 403):
        return ["refused", str(status)]
    return ["ok", ""] if status < 400 else ["failed", "HTTP %d" % status]


def main(wanted):
    """Ask all of them."""
    os.environ.update(proxies())
    json.dump([tried(one) for one in wanted], sys.stdout)
