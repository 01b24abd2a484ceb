"""Rules about host lists: master.csv and worker.csv, one line `hostname,address` a machine.

Passes::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2
"""
