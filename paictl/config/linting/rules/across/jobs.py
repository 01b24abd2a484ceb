"""Jobs and groups against the virtual clusters that they name."""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.inventory import virtual_clusters_beside
from paictl.config.models.job_demand import submissions
from paictl.config.models.services import services_of
from paictl.config.reading.kinds import FileKind
from paictl.i18n import listed, text


@rule("XRF951", "job-unknown-vc", ERROR)
def job_vc(bundle: Bundle) -> Findings:
    """A job is for a virtual cluster that the hivedscheduler configuration does not have.

    Why: nothing checks it at submission; the pods wait for a scheduler that does not exist. A job that names no
    virtual cluster is for `default`.

    Passes::

        # hivedscheduler.yaml
        physicalCluster:
          skuTypes:
            V100: {gpu: 1, cpu: 8, memory: 65536Mi}
            T4: {gpu: 1, cpu: 4, memory: 32768Mi}
          cellTypes:
            V100-NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
            V100-POOL: {childCellType: V100-NODE, childCellNumber: 3}
            T4-NODE: {childCellType: T4, childCellNumber: 2, isNodeLevel: true}
          physicalCells:
          - cellType: V100-POOL
            cellChildren:
            - {cellAddress: v1}
            - {cellAddress: v2}
            - {cellAddress: v3, pinnedCellId: box}
          - {cellType: T4-NODE, cellAddress: t1}
        virtualClusters:
          vision:
            virtualCells:
            - {cellType: V100-POOL.V100-NODE, cellNumber: 2}
            pinnedCells:
            - {pinnedCellId: box}
          default:
            virtualCells:
            - {cellType: T4-NODE, cellNumber: 1}

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
        defaults: {virtualCluster: vision}

    Fails with::

        # job.yaml
        -defaults: {virtualCluster: vision}
        +defaults: {virtualCluster: visoin}
    """
    # Every job whose VC is unknown.
    for submission in submissions(bundle):
        if submission.vc is not None:
            continue
        names = [vc.name for vc in submission.cluster.vcs]
        at = submission.job.virtual_cluster
        otherwise = text("name one in defaults.virtualCluster: {names}", names=listed(names))
        message = text("no virtual cluster {vc!r}", vc=submission.vc_name)
        lower = next((name for name in names if at is not None and name.lower() == at.text.lower()), None)
        if at is not None and lower is not None and lower != lower.lower() and at.text == at.text.lower():
            yield Finding(
                at,
                text("{message}, but {lower!r}", message=message, lower=lower),
                "names of virtual clusters have no capital letters: correct the name there",
            )
        elif at is not None:
            yield Finding(at, message, *suggested(at, names, otherwise))
        else:
            place = submission.job.top.key("name") or submission.job.top
            yield Finding(
                place, text("{message}; jobs that name no virtual cluster use it", message=message), otherwise
            )


@rule("XRF952", "job-unknown-sku", ERROR)
def job_sku(bundle: Bundle) -> Findings:
    """A job requests a device type that the cluster, or its virtual cluster, does not have.

    Why: the server answers with an internal error that names nothing, or the pods wait forever. Opportunistic jobs
    may use types of other virtual clusters.

    Passes::

        # hivedscheduler.yaml
        physicalCluster:
          skuTypes:
            V100: {gpu: 1, cpu: 8, memory: 65536Mi}
            T4: {gpu: 1, cpu: 4, memory: 32768Mi}
          cellTypes:
            V100-NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
            V100-POOL: {childCellType: V100-NODE, childCellNumber: 3}
            T4-NODE: {childCellType: T4, childCellNumber: 2, isNodeLevel: true}
          physicalCells:
          - cellType: V100-POOL
            cellChildren:
            - {cellAddress: v1}
            - {cellAddress: v2}
            - {cellAddress: v3, pinnedCellId: box}
          - {cellType: T4-NODE, cellAddress: t1}
        virtualClusters:
          vision:
            virtualCells:
            - {cellType: V100-POOL.V100-NODE, cellNumber: 2}
            pinnedCells:
            - {pinnedCellId: box}
          default:
            virtualCells:
            - {cellType: T4-NODE, cellNumber: 1}

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
        defaults: {virtualCluster: vision}
        extras:
          hivedScheduler:
            taskRoles:
              train: {skuType: V100}

    Fails with::

        # job.yaml
        -      train: {skuType: V100}
        +      train: {skuType: V1000}
    """
    # Every skuType that is nowhere, or not where the job runs.
    for submission in submissions(bundle):
        everywhere = [*dict.fromkeys((*submission.cluster.skus.entries, *submission.cluster.types.leaves))]
        for role in submission.job.roles.values():
            if role.sku is None or not everywhere:  # a cluster without device types has findings of its own
                continue
            if role.sku.text not in everywhere:
                chain = (
                    submission.cluster.types.chain(role.sku.text)
                    if role.sku.text in submission.cluster.types.by_name
                    else None
                )
                otherwise = text("name one of: {names}", names=listed(everywhere))
                hint, edits = suggested(role.sku, everywhere, otherwise)
                if chain is not None and chain.leaf_type in everywhere:
                    hint, edits = (
                        text(
                            "{sku} is a cell type: name its device, {leaf_type}",
                            sku=role.sku.text,
                            leaf_type=chain.leaf_type,
                        ),
                        (),
                    )
                yield Finding(role.sku, text("the cluster has no device type {sku!r}", sku=role.sku.text), hint, edits)
            elif submission.clear and not submission.job.opportunistic and role.sku.text not in submission.sku_names:
                message = text(
                    "virtual cluster {vc!r} has no devices of type {sku!r}", vc=submission.vc_name, sku=role.sku.text
                )
                hint = text("name one of: {names}", names=listed(sorted(submission.sku_names)))
                if submission.job.virtual_cluster is None:
                    hint = text(
                        "{hint}; or name another virtual cluster in defaults.virtualCluster, which is missing",
                        hint=hint,
                    )
                yield Finding(role.sku, message, hint)


@rule("XRF953", "job-unknown-pin", ERROR)
def job_pin(bundle: Bundle) -> Findings:
    """A job requests a pinned cell that its virtual cluster does not have.

    Why: HiveD refuses the pods one by one, after the job was accepted.

    Passes::

        # hivedscheduler.yaml
        physicalCluster:
          skuTypes:
            V100: {gpu: 1, cpu: 8, memory: 65536Mi}
            T4: {gpu: 1, cpu: 4, memory: 32768Mi}
          cellTypes:
            V100-NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
            V100-POOL: {childCellType: V100-NODE, childCellNumber: 3}
            T4-NODE: {childCellType: T4, childCellNumber: 2, isNodeLevel: true}
          physicalCells:
          - cellType: V100-POOL
            cellChildren:
            - {cellAddress: v1}
            - {cellAddress: v2}
            - {cellAddress: v3, pinnedCellId: box}
          - {cellType: T4-NODE, cellAddress: t1}
        virtualClusters:
          vision:
            virtualCells:
            - {cellType: V100-POOL.V100-NODE, cellNumber: 2}
            pinnedCells:
            - {pinnedCellId: box}
          default:
            virtualCells:
            - {cellType: T4-NODE, cellNumber: 1}

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
        defaults: {virtualCluster: vision}
        extras:
          hivedScheduler:
            taskRoles:
              train: {pinnedCellId: box}

    Fails with::

        # job.yaml
        -      train: {pinnedCellId: box}
        +      train: {pinnedCellId: boxes}
    """
    # Every pinnedCellId that the job's VC does not list.
    for submission in submissions(bundle):
        pins = [promise.pin_id for promise in (submission.vc.promises if submission.vc else ()) if promise.pin_id]
        for role in submission.job.roles.values():
            if submission.vc is None or role.pin is None or role.pin.text in pins or submission.job.opportunistic:
                continue
            otherwise = (
                text("name one of: {names}", names=listed(pins)) if pins else "the virtual cluster has no pinned cells"
            )
            message = text(
                "virtual cluster {vc!r} has no pinned cell {pin!r}", vc=submission.vc_name, pin=role.pin.text
            )
            yield Finding(role.pin, message, *suggested(role.pin, pins, otherwise))


@rule("XRF957", "group-unknown-vc", ERROR)
def group_vc(bundle: Bundle) -> Findings:
    """A group may use a virtual cluster that the hivedscheduler configuration does not have.

    Why: when it starts, the server strips unknown virtual clusters from groups, then deletes groups without any, and
    takes their users out of them: a typo, or a renamed virtual cluster, destroys grants.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        authentication:
          group-manager:
            group-data-source: basic
            admin-group: {groupname: admins, extension: {acls: {admin: true}}}
            default-group: {groupname: everybody, extension: {acls: {virtualClusters: [default]}}}
            grouplist:
            - groupname: researchers
              extension: {acls: {virtualClusters: [vision]}}
        hivedscheduler:
          config: |
            physicalCluster:
              skuTypes:
                V100: {gpu: 1, cpu: 8, memory: 65536Mi}
                T4: {gpu: 1, cpu: 4, memory: 32768Mi}
              cellTypes:
                V100-NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
                V100-POOL: {childCellType: V100-NODE, childCellNumber: 3}
                T4-NODE: {childCellType: T4, childCellNumber: 2, isNodeLevel: true}
              physicalCells:
              - cellType: V100-POOL
                cellChildren:
                - {cellAddress: v1}
                - {cellAddress: v2}
                - {cellAddress: v3, pinnedCellId: box}
              - {cellType: T4-NODE, cellAddress: t1}
            virtualClusters:
              vision:
                virtualCells:
                - {cellType: V100-POOL.V100-NODE, cellNumber: 2}
                pinnedCells:
                - {pinnedCellId: box}
              default:
                virtualCells:
                - {cellType: T4-NODE, cellNumber: 1}

    Fails with::

        # services-configuration.yaml
        -      extension: {acls: {virtualClusters: [vision]}}
        +      extension: {acls: {virtualClusters: [vison]}}
    """
    # Every VC in the acls of a group that the configuration beside it does not promise anything.
    for document in bundle.of(FileKind.SERVICES):
        known = virtual_clusters_beside(document, bundle)
        for group in services_of(document).groups if known else ():
            for name in group.acls.sequence("virtualClusters").scalars():
                if name.text not in known:
                    message = text(
                        "group {group!r} may use {name!r}, but no such virtual cluster exists",
                        group=group.name.text,
                        name=name.text,
                    )
                    yield Finding(
                        name, message, *suggested(name, known, text("name one of: {names}", names=listed(known)))
                    )
