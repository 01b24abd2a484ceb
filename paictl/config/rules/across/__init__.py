"""Rules about files that belong together."""

from types import ModuleType

from paictl.config.rules.across import (
    group_vc,
    job_gang_size,
    job_no_gpu,
    job_pin,
    job_pod_size,
    job_sku,
    job_vc,
    service_cycle,
    service_file,
    service_prerequisite,
)

MODULES: tuple[ModuleType, ...] = (
    job_vc,
    job_sku,
    job_pin,
    job_pod_size,
    job_gang_size,
    job_no_gpu,
    group_vc,
    service_prerequisite,
    service_cycle,
    service_file,
)
"""The rules of this package, by id."""
