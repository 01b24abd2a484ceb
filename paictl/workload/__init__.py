"""From an OpenPAI job to affinity groups and pods, and what becomes of them: pure rules, no cluster.

`job` reads protocol v2; `supply` says what a cluster and its virtual clusters offer; `sku` turns resources into
leaf cells; `pods` makes the plan (groups, pods, scheduling specs); `feasible` says why a plan can never run;
`lifecycle` says what follows when a task starts or ends; `duration` says how long a task runs.

Data in, frozen dataclasses out. This package must never read a clock, a file or the environment, never hold the
state of a cluster, never decide where a pod runs (that is `paictl.scheduler`), and never let the value of a
job's secret into anything that is printed or stored.
"""
