"""The job controller of a Kubernetes cluster: `PaiJob`s in, Indexed Jobs out, and what became of them into the status.

`observing` says what has happened to tasks and `deciding` what is to be done about a job, both pure, by the state
machine of `workload.lifecycle`; `doing` does it, every step so that it may be done twice; `manifests` and `runtime` say
what the objects look like; `cache` keeps what is seen, `loop` works off what has changed, `service` is the process.
Level-triggered: no decision depends on having seen an event, so the process may be killed anywhere. It must never
decide where a pod runs, keep state anywhere but in the status of `PaiJob`s, or write outside the namespace of jobs.
"""
