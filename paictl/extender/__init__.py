"""The door for which kube-scheduler asks: HiveD's extender protocol.

`wire` is kube-scheduler's JSON, `verbs` answer filter, preempt and bind, `server` speaks HTTP, `service` is the
process. All else is `paictl.doors`. It must never believe what a caller says about a pod over what the API server
says.
"""
