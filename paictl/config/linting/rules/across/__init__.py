"""Rules about files that belong together: those of one folder, or given together.

Passes::

    # layout.yaml
    machine-sku:
      head: {mem: 64Gi, cpu: {vcore: 16}}
      v100:
        mem: 480Gi
        cpu: {vcore: 64}
        computing-device: {type: nvidia.com/gpu, model: V100, count: 8}
    machine-list:
    - {hostname: pai-master-1, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
    - {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
    - {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
    # hivedscheduler.yaml
    physicalCluster:
      skuTypes:
        V100: {gpu: 1, cpu: 7, memory: 60000Mi}
      cellTypes:
        V100-NODE: {childCellType: V100, childCellNumber: 8, isNodeLevel: true}
      physicalCells:
      - {cellType: V100-NODE, cellAddress: pai-worker-1}
      - {cellType: V100-NODE, cellAddress: pai-worker-2}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: V100-NODE, cellNumber: 2}
"""
