"""The scheduler core on a running Kubernetes: what the extender and the placer have in common.

`core` holds the table of pods and the book behind one lock, filled by what the API server says; `deciding` answers
which node a pod gets; `gangs`, `reclaim` and `housekeeping` say what else is due and `reconciler` does it; `binder`
writes what was decided; `claims` has devices of DRA follow the decision; `grants` and `callers` say who may use what,
and ask what; `pod_events` words what pods get as events. `term` ties these to informers for as long as this process
leads, `server` lets people look, `service` is the whole process, `manifests` prints what it needs in a cluster.

A door (`paictl.extender`, `paictl.placer`) is how pods reach it. It talks to Kubernetes through `paictl.remote.kube`
only, and must never decide who gets which devices: `paictl.scheduler` does.
"""
