"""A real Kubernetes cluster behind the interface of a cluster; all requests go through `remote.kube`.

Objects of ours are in one namespace and carry our labels (`docs/clusters.md`). It must never change an object that is
not ours, save what a request names (a node that is cordoned), and never keep a secret anywhere but in a Secret.
"""
