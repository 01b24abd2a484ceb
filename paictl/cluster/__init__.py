"""What a cluster is to paictl: machines, jobs, configuration, services, events and a clock behind one interface.

`interface` says what commands, labs and reports may ask; `embedded` is a cluster on this machine. A command must get
the same kind of answer from every implementation, so nothing above this package may know which one it talks to, and
this package must never print.
"""
