"""The mathematical programs of policies: shares of device types, leases, curves that fit, searches.

They must never know a cluster, a clock or a policy: numbers in, numbers out, solved by HiGHS and scipy.

The programs are small, and the threads of numpy's linear algebra spend more time on waiting for each other than on
computing: a fit of seven parameters took fifteen times the processor time. So we use one thread unless the user says
otherwise, and spread runs over processors by processes.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
