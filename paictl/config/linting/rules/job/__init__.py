"""Rules about jobs: what OpenPAI's server and HiveD refuse, or take for something else than written.

Passes::

    # job.yaml
    protocolVersion: 2
    name: mnist
    type: job
    prerequisites:
    - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
    taskRoles:
      train:
        dockerImage: image
        resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
        commands: [python3 train.py]
"""
