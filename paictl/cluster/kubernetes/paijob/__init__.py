"""The custom resource `PaiJob`: how a job is written into Kubernetes and read back, and what is seen of its pods.

Pure functions between JSON values and dataclasses, used by the port (client) and by the controller alike. It must never
talk to a cluster, and never write the value of a secret into a `PaiJob`.
"""
