"""The scheduler core behind kube-scheduler: its extender calls in, decisions, bindings and evictions out.

`wire` is kube-scheduler's JSON, `reading` and `labels` turn pods into requests, `nodes` says which nodes are bad.
`callers` says who may ask what, and checks what they say about a pod against the API server; `grants` says which
namespaces may use which virtual clusters. `core` holds the pod table and the engine behind one lock; `filtering`,
`preemption` and `binding` are the verbs on it.
`housekeeping` says what else is due, `reconciler` does it, `binder` sends bindings, `pod_events` words what pods get
as events. `term` ties these to what the API server says for as long as this process leads, `server` speaks HTTP and
`service` is the whole process. It talks to Kubernetes through `paictl.remote.kube` only, and must never decide who
gets which devices: `paictl.scheduler` does.
"""
