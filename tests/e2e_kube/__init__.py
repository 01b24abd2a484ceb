"""Tests on a real control plane: etcd, the API server, kube-scheduler and the rest, and the extender as a process."""
