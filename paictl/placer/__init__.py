"""The door for pods that carry the scheduling gate ``paictl.io/cells``, on any kube-scheduler as it is.

It asks the same book as the extender does, gang by gang, and sends one PATCH per pod: the gate is removed, the
annotations are set, and the pod is pinned to its node. `core` counts a pinned pod as placed, `placing` decides,
`pins` writes, `term` and `service` are `paictl.doors` with these. It must never bind a pod, nor decide who gets which
devices: kube-scheduler and `paictl.scheduler` do.
"""
