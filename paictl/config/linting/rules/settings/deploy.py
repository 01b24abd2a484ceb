"""What the section `deploy:` asks for and no machine can be."""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.settings import belongs_to_the_system, cluster_networks
from paictl.i18n import text


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
