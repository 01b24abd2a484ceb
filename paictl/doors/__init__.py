"""The scheduler core on a running Kubernetes: what the extender and the placer have in common.

`core` holds the table of pods and the book behind one lock, filled by what the API server says; `deciding` answers
which node a pod gets; `gangs`, `reclaim` and `housekeeping` say what else is due and `reconciler` does it; `binder`
writes decisions to the API server; `claims` makes DRA devices follow them; `grants` says which virtual clusters a
namespace may use and `callers` who may ask what over HTTP; `pod_events` words the events of pods. `term` ties these to
informers while this process leads, `server` answers read-only requests, `service` is the whole process, `manifests`
prints what it needs in a cluster.

A door (`paictl.extender`, `paictl.placer`) is how pods reach the scheduler. It talks to Kubernetes only through
`paictl.remote.kube`, and must never decide who gets which devices: `paictl.scheduler` does.
"""
