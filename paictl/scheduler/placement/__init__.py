"""The search for a place: nodes for pods, leaves in a node, virtual cells onto physical ones, views in order.

Read-only: state goes in, a `Placement` or the failed attempts come out. Where a search has to imagine a change (a
lazy preemption, a second cell after a first), it does so inside a journal transaction that always rolls back.
It must never leave a change behind, nor look at more of the cluster than the size of the pod and the depth of the
tree require.
"""
