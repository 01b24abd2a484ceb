"""What the scheduler reads in objects of Kubernetes: what a pod asks for and where it runs, which nodes are good.

Used by the extender, which decides, and by whoever looks at a cluster from outside and has to see the same. Pure
functions from JSON values; it must never talk to a cluster, nor decide anything.
"""
