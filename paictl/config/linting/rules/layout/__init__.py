"""Rules about the machine layout: layout.yaml, in its newest and its legacy form.

Passes::

    # layout.yaml
    machine-sku:
      head: {mem: 64Gi, cpu: {vcore: 16}}
      v100:
        mem: 480Gi
        cpu: {vcore: 64}
        computing-device: {type: nvidia.com/gpu, model: V100, count: 8}
    machine-list:
    - {hostname: pai-master, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
    - {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
    - {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
"""
