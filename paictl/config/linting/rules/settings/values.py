"""Settings that are left over, never applied, understood in another way than they look, or that no machine can be."""

from __future__ import annotations

import re

from paictl.config.linting.rule import ERROR, INFO, WARNING, Document, Finding, Findings, Span, rule
from paictl.config.models.hosts import abridged
from paictl.config.models.placeholders import is_placeholder, scalars_below
from paictl.config.models.settings import EXTRA, belongs_to_the_system, cluster_networks, filled
from paictl.config.reading.nodes import ScalarNode
from paictl.i18n import sayable, text


@rule("CFG301", "unfilled-setting", ERROR)
def placeholder(document: Document) -> Findings:
    """A setting still has the template's placeholder.

    Why: OpenPAI fills templates with whatever is written there: it logs in as `forexample` and pulls images with the
    tag `<% latest-release %>`.

    Fails with::

        # config.yaml
        -user: pai-admin
        +user: forexample
    """
    # Each value, at any depth, that is a placeholder.
    for path, scalar in scalars_below(document.top):
        if is_placeholder(scalar.text):
            secret = "password" in path or path.endswith("_key")
            shown = text("a placeholder") if secret else text("the placeholder {value}", value=abridged(scalar.text))
            yield Finding(
                scalar,
                text("{path} is still {shown}", path=path, shown=shown),
                text("write your own {path}, or remove the line", path=path),
            )


_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


@rule("CFG305", "bad-image-tag", ERROR)
def bad_image_tag(document: Document) -> Findings:
    """The tag of OpenPAI's images is not a valid image tag.

    Why: the tag is appended to the name of every image. A registry refuses an invalid tag, and every service stays in
    ImagePullBackOff.

    Fails with::

        # config.yaml
        -docker_image_tag: v1.8.1
        +docker_image_tag: openpai:v1.8.1
    """
    # A tag with other characters, or longer than 128.
    tag = filled(document, "docker_image_tag")
    if tag is None or _TAG.fullmatch(tag.text):
        return
    bare = tag.text.rpartition(":")[2].strip()
    message = text("docker_image_tag is {tag}, which is not a valid image tag", tag=abridged(tag.text))
    hint = "use letters, digits, '_', '.' and '-', at most 128, not beginning with '.' or '-'"
    yield Finding(tag, message, text("write the tag alone: {bare}", bare=bare) if _TAG.fullmatch(bare) else hint)


_LEGACY = {
    "branch_name": ("v1.4", "check out the tag or branch before you deploy"),
    "gpu_type": ("v1.2", "give computing-device.type of the machine's SKU in layout.yaml"),
    "worker_default_docker_runtime": ("v1.2", "set default-runtime in Docker's daemon.json on the workers"),
}


@rule("CFG309", "legacy-setting", WARNING)
def legacy_setting(document: Document) -> Findings:
    """A setting is only read by versions of OpenPAI older than the deployed one.

    Why: unknown settings are silently ignored, so it looks as if this one still had an effect. The version is that of
    `docker_image_tag`.

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +branch_name: release-1.8
    """
    # Each legacy setting that the version to be deployed does not read, with what to do in its place.
    tag = filled(document, "docker_image_tag")
    deployed = _release(tag.text) if tag else None
    for key, (version, instead) in _LEGACY.items():
        at = document.top.key(key)
        last = _release(version)
        if at is not None and not (deployed and last and deployed <= last):
            yield Finding(
                at,
                text("{key} is read up to {version} only", key=key, version=version),
                text("remove it, and {instead}", instead=sayable(instead)),
            )


def _release(text: str) -> tuple[int, int] | None:
    """Major and minor number of a version such as ``v1.4`` or ``v1.2.0``; None for any other tag."""
    match = re.fullmatch(r"v?(\d{1,6})\.(\d{1,6})(?:\..*|-.*)?", text.strip())
    return (int(match[1]), int(match[2])) if match else None


_KEYS = ("host_daemon_port_start", "host_daemon_port_end")


@rule("CFG310", "setting-without-effect", INFO)
def setting_without_effect(document: Document) -> Findings:
    """A setting is accepted but never applied.

    Why: OpenPAI's playbooks read host_daemon_port_start and host_daemon_port_end, but no role that runs uses them: the
    range of local ports of the machines stays what it is.

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +host_daemon_port_start: 50000
    """
    # The first of the two bounds that is given.
    at = next((key for key in (document.top.key(name) for name in _KEYS) if key), None)
    if at is not None:
        hint = "set net.ipv4.ip_local_port_range on the machines yourself"
        yield Finding(at, text("{at} is never applied by OpenPAI's playbooks", at=at.text), hint)


@rule("CFG315", "extra-var-boolean", WARNING)
def extra_var_boolean(document: Document) -> Findings:
    """A variable for Kubespray is a boolean, but reaches it as a string.

    Why: OpenPAI puts quotes around every value of openpai_kubespray_extra_var: `true` becomes "True". Kubespray insists
    that several of its variables are real booleans and stops; others count as true whatever the string says.

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +openpai_kubespray_extra_var:
        +  download_run_once: true
    """
    for entry in document.top.mapping(EXTRA):
        value = entry.value
        if isinstance(value, ScalarNode) and isinstance(value.value, bool):
            message = text(
                '{entry} reaches Kubespray as the string "{value}", not as a boolean',
                entry=entry.name,
                value=value.value,
            )
            yield Finding(value, message, "set it in Kubespray's own inventory/pai/openpai.yml")


_OWN = "image-pull-progress-deadline"


@rule("CFG316", "kubelet-flags-replaced", WARNING)
def kubelet_flags_replaced(document: Document) -> Findings:
    """Flags for kubelet replace those that OpenPAI sets.

    Why: kubelet_custom_flags is written a second time into the file for Kubespray, where the last one wins:
    OpenPAI's own --image-pull-progress-deadline=10m is lost, and large images fail to pull.

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +kubelet_custom_flags:
        +  serialize-image-pulls: "false"
    """
    # Flags without OpenPAI's own among them.
    flags = document.top.mapping("kubelet_custom_flags")
    at = document.top.key("kubelet_custom_flags")
    if at is not None and len(flags) and _OWN not in flags:
        yield Finding(
            at,
            text("kubelet_custom_flags replaces OpenPAI's own --{own}=10m", own=_OWN),
            text("add {own}: 10m", own=_OWN),
        )


_ACCOUNT = ("docker_cache_azure_account_name", "docker_cache_azure_account_key")


@rule("CFG317", "docker-cache-account", ERROR)
def docker_cache_account(document: Document) -> Findings:
    """The cache of Docker images uses Azure storage, but no account is given.

    Why: azure is the default of docker_cache_storage_backend. Without an account, the cache does not start, although
    every machine is configured to pull through it.

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +enable_docker_cache: true
    """
    # A cache that is on, with the azure backend and neither name nor key (one of the two alone: SHP109).
    top = document.top
    enabled, backend = top.scalar("enable_docker_cache"), top.scalar("docker_cache_storage_backend")
    if enabled is None or enabled.value is not True or (backend is not None and backend.text != "azure"):
        return
    empty = [top.scalar(key) for key in _ACCOUNT if key in top]
    if not empty:
        hint = text("add {account}, or docker_cache_storage_backend: filesystem", account=" and ".join(_ACCOUNT))
        yield Finding(top.key("enable_docker_cache") or enabled, "the Docker cache has no Azure account", hint)
    for key, scalar in zip(_ACCOUNT, empty, strict=False):
        if scalar is not None and not scalar.text.strip():
            yield Finding(
                scalar, text("{key} is empty, but the Docker cache needs it", key=key), text("fill in {key}", key=key)
            )


_SEARCHED = re.compile(r"#.*?\b(docker_image_tag|branch_name)\b.*")


@rule("CFG318", "setting-in-comment", WARNING)
def setting_in_comment(document: Document) -> Findings:
    """A comment contains a setting that is read by text search.

    Why: OpenPAI's scripts look for docker_image_tag and branch_name with grep and take every line that matches,
    comments too: they get two versions in one word, and check out neither.

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +# docker_image_tag: v1.7.0
    """
    # Each comment with one of the two names in it.
    source = document.source
    for match in _SEARCHED.finditer(source.text):
        if not _in_quotes(document, match.start()):
            at = Span(source, match.start(1), match.end(1))
            message = text(
                "{group} in a comment is read too, by a script that searches the file as text", group=match.group(1)
            )
            yield Finding(at, message, "remove the comment, or spell the name differently")


def _in_quotes(document: Document, offset: int) -> bool:
    """Whether a `#` is part of a value."""
    values = (entry.value for entry in document.top)
    return any(value.start <= offset < value.end for value in values)


@rule("CFG319", "system-folder", ERROR)
def system_folder(document: Document) -> Findings:
    """The folder for volumes belongs to Linux or to Kubernetes.

    Why: a program that runs as root on every machine creates and deletes volumes below it, and files that pods
    write there would be mixed with those of the system.

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +deploy:
        +  storage_class: {provisioner: local-path, path: /var/lib/kubelet/volumes}
    """
    # A path that is one of the system's folders, or below one.
    path = document.top.at("deploy", "storage_class").scalar("path")
    if path is not None and belongs_to_the_system(path.text):
        message = text("deploy.storage_class.path: {path} belongs to the system", path=path.text)
        yield Finding(path, message, text("choose a folder of its own, for instance {path}", path="/srv/volumes"))


@rule("CFG320", "node-dns", ERROR)
def node_dns(document: Document) -> Findings:
    """The DNS cache of the nodes cannot work, or pods would not use it.

    Why: the cache has an IPv4 address, which pods of an IPv6 cluster do not reach; and a list of servers in
    `deploy.kubelet` takes the place of the one that names the cache.

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +deploy: {node_dns: true, kubelet: {clusterDNS: [10.192.0.10]}}
    """
    # The cache is on, and kubelet has servers of its own, or a network of the cluster is one of IPv6.
    deploy = document.top.mapping("deploy")
    switch = deploy.scalar("node_dns")
    if switch is None or switch.value is not True:
        return
    servers = deploy.mapping("kubelet").key("clusterDNS")
    if servers is not None:
        message = text("deploy.kubelet.clusterDNS overrides deploy.node_dns: no pod would use the DNS cache")
        yield Finding(servers, message, text("remove one of them"))
    for network in cluster_networks(document):
        if network.network.version != 4:
            message = text("deploy.node_dns needs IPv4, and {network} is not", network=network.words)
            yield Finding(switch, message, text("remove deploy.node_dns"))
