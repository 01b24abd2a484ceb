"""Which resources of Kubernetes are devices."""

from __future__ import annotations

from typing import Final

DEVICES: Final = (
    "nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi",
    "aws.amazon.com/neuron", "google.com/tpu", "huawei.com/Ascend910",
)  # fmt: skip
"""Resources of device plugins that count as devices."""
