"""The mathematical programs of policies: shares of device types, leases, curves that fit, searches.

They must never know a cluster, a clock or a policy: numbers in, numbers out, solved by HiGHS and scipy.

The programs are small, and threads of numpy's linear algebra spend more on waiting for each other than on adding: a
fit of seven parameters took fifteen times the processor time. So one thread, unless the user says otherwise; runs are
spread over processors by processes.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
