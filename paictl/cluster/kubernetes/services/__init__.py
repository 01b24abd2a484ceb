"""Services of a Kubernetes cluster: applied from templates, waited for with reasons, stopped, deleted.

`kinds` knows paths, `marking` labels, `applying` the server's verdicts, `record` what was applied and who is at it,
`workloads` why something does not run, `drift` what somebody has changed; `port` puts them together. It must never
delete an object that does not carry our label, nor data unless it is told to.
"""
