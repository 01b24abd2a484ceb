"""The form of the layout and the types of machines that it defines."""

from __future__ import annotations

import re

from paictl.config.linting.rule import ERROR, INFO, WARNING, Document, Finding, Findings, Severity, renamed, rule
from paictl.config.models.hosts import MAX_LABEL, abridged
from paictl.config.models.layout import is_legacy, layout_of, legacy_fields, refused_fields
from paictl.config.models.placeholders import is_placeholder
from paictl.i18n import counted, text
from paictl.suggestions import nearest
from paictl.units import Quantity, likely_quantity


@rule("LAY401", "legacy-form", WARNING)
def legacy_form(document: Document) -> Findings:
    """The layout has the form that OpenPAI used before v1.5.

    Why: since v1.5 the quick-start refuses every field that it does not know, and names only the first. The findings of
    LAY402 list what has to change; this one comes first.

    Fails with::

        # layout.yaml
        -    mem: 480Gi
        +    mem: 480
        @@
        -- {hostname: pai-master, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
        +- {hostname: pai-master, hostip: 10.1.0.1, machine-type: head, zkid: 1, pai-master: "true"}
    """
    # A layout with more than one kind of legacy field.
    if is_legacy(document):
        at = next((entry.key for entry in document.top), document.beginning)
        count = len(refused_fields(document))
        message = text(
            "the layout has the legacy form: {count} kinds of field are unknown to OpenPAI v1.5 and later",
            count=count,
        )
        yield Finding(at, message, "change what each LAY402 finding names, or stay with v1.4")


@rule("LAY402", "legacy-field", WARNING)
def legacy_field(document: Document) -> Findings:
    """A field of the layout belongs to the form that OpenPAI used before v1.5.

    Why: since v1.5 the quick-start refuses fields that it does not know, and older paictl reads some of them only now
    and then. Each kind is reported once, where it first appears.

    Fails with::

        # layout.yaml
        -- {hostname: pai-master, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
        +- {hostname: pai-master, nodename: pai-master, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
    """
    # Each kind of legacy field, at its first place; only information where it is still accepted.
    for field in legacy_fields(document):
        more = len(field.places) - 1
        times = counted(" (and in {count} more place)", " (and in {count} more places)", more) if more else ""
        severity = Severity.INFO if field.accepted else None
        message = text("{field} belongs to the legacy form{times}", field=field.name, times=times)
        yield Finding(field.places[0], message, field.now, severity=severity)


@rule("LAY404", "unknown-machine-sku", ERROR)
def unknown_sku(document: Document) -> Findings:
    """A machine has a SKU that the layout does not define.

    Why: the hardware of a machine is taken from its SKU in machine-sku. Without one, the deployment stops, or its
    resources cannot be divided among jobs.

    Fails with::

        # layout.yaml
        -- {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
        +- {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v1000, pai-worker: "true"}
    """
    # Each machine-type that is no key of machine-sku.
    layout = layout_of(document)
    for machine in layout.machines:
        at = machine.sku
        if at is None or not layout.skus or layout.sku_of(machine) is not None or is_placeholder(at.text):
            continue
        near = nearest(at.text, layout.skus)
        message = text(
            "{machine} has the SKU {sku}, which machine-sku does not define",
            machine=machine.words,
            sku=abridged(at.text),
        )
        edits = renamed(at, near) if near else ()
        unused = [
            name
            for name in layout.skus
            if all(other.sku is None or other.sku.text != name for other in layout.machines)
        ]
        hint: str = "define it in machine-sku"
        if near:
            hint = text("did you mean {near!r}?", near=near)
        elif len(unused) == 1:
            hint = text("define it in machine-sku, or did you mean {unused!r}, which no machine has?", unused=unused[0])
        yield Finding(at, message, hint, edits)


@rule("LAY405", "unused-machine-sku", INFO)
def unused_sku(document: Document) -> Findings:
    """The layout defines a SKU that no machine has.

    Why: it does no harm, but usually a machine was forgotten, or the name of its SKU was changed in one place only.

    Fails with::

        # layout.yaml
             computing-device: {type: nvidia.com/gpu, model: V100, count: 8}
        +  p100: {mem: 240Gi, cpu: {vcore: 32}}
    """
    # Each SKU that no machine names; none where a machine names an unknown one, which may well mean it. A SKU that
    # others take over with `<<` is their template, and used.
    layout = layout_of(document)
    named = {machine.sku.text for machine in layout.machines if machine.sku}
    if not named or not named <= layout.skus.keys():
        return
    taken = {id(entry) for name in named for entry in layout.skus[name].spec}
    for name, sku in layout.skus.items():
        if name not in named and not any(id(entry) in taken for entry in sku.spec):
            yield Finding(
                sku.key, text("no machine has the SKU {name}", name=abridged(name)), "remove it, or add its machines"
            )


_FORM = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?")


@rule("LAY406", "bad-sku-name", WARNING)
def bad_sku_name(document: Document) -> Findings:
    """The name of a SKU cannot be used wherever it is needed.

    Why: cell types of HiveD, node labels and jobs' skuType are named after the SKU. HiveD separates types by dots, so a
    SKU with a dot in its name is never found; spaces and other characters lead to names that labels and tools refuse.

    Fails with::

        # layout.yaml
        -  v100:
        +  v100 32G:
        @@
        -- {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
        -- {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
        +- {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100 32G, pai-worker: "true"}
        +- {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100 32G, pai-worker: "true"}
    """
    # Each name with other characters than letters, digits, `-` and `_`; an error where there is a dot.
    for name, sku in layout_of(document).skus.items():
        if len(name) <= MAX_LABEL and _FORM.fullmatch(name):
            continue
        hint = text("use letters, digits, '-' and '_', at most {max_label}", max_label=MAX_LABEL)
        if "." in name:
            message = text(
                "SKU {name} has a dot in its name, but HiveD separates cell types at dots", name=abridged(name)
            )
            yield Finding(sku.key, message, hint, severity=Severity.ERROR)
        else:
            yield Finding(
                sku.key, text("SKU {name} has a name that labels and cell types cannot have", name=abridged(name)), hint
            )


_LEAST = 1024**3


@rule("LAY407", "bad-memory", ERROR)
def bad_memory(document: Document) -> Findings:
    """The memory of a SKU is not an amount of memory.

    Why: the amount is divided among the devices of the machine. If it is not a Kubernetes quantity, the HiveD
    configuration cannot be generated; an amount without a unit is in bytes.

    Fails with::

        # layout.yaml
        -    mem: 480Gi
        +    mem: lots
    """
    # Each `mem` that is no quantity, or below 1 GiB; bare numbers are the legacy form (LAY402).
    for name, sku in layout_of(document).skus.items():
        at, memory = sku.memory_at, sku.memory
        if at is None or not isinstance(at.value, str) or is_placeholder(at.text):
            continue
        if memory is None:
            fixed = likely_quantity(at.text)
            hint = text("write {fixed}", fixed=fixed) if fixed else "write a number and a unit, such as 220Gi"
            yield Finding(
                at,
                text(
                    "mem of SKU {name} is {amount}, which is not an amount of memory",
                    name=abridged(name),
                    amount=abridged(at.text),
                ),
                hint,
            )
        elif memory.bytes < _LEAST:
            unit = "" if memory.suffix else text("; did you mean {amount}Gi?", amount=at.text)
            message = text(
                "mem of SKU {name} is {amount}, which is {bytes:,} bytes",
                name=abridged(name),
                amount=at.text,
                bytes=memory.bytes,
            )
            yield Finding(at, message, text("write the memory of such a machine{unit}", unit=unit))


@rule("LAY408", "decimal-memory", WARNING)
def decimal_memory(document: Document) -> Findings:
    """The memory of a SKU has a unit of thousands where one of 1024 is usual.

    Why: `64G` is 64 000 000 000 bytes and `64Gi` 68 719 476 736, 7 % more. Machines are sold and measured in Gi; and
    OpenPAI's rest-server reads only Ki, Mi, Gi and Ti: it takes `64G` for zero.

    Fails with::

        # layout.yaml
        -    mem: 480Gi
        +    mem: 480G
    """
    # Each `mem` with K, M, G, T, P or E.
    for name, sku in layout_of(document).skus.items():
        at, memory = sku.memory_at, sku.memory
        if at is None or memory is None or not memory.decimal:
            continue
        binary = Quantity(memory.count, f"{memory.suffix.upper()}i")
        amounts = text(
            "{bytes:,} bytes, {count}{suffix} would be {binary:,}",
            bytes=memory.bytes,
            count=binary.count,
            suffix=binary.suffix,
            binary=binary.bytes,
        )
        message = text(
            "mem of SKU {name} is {amount} = {amounts}", name=abridged(name), amount=at.text, amounts=amounts
        )
        yield Finding(
            at, message, text("write {count}{suffix} if that is intended", count=binary.count, suffix=binary.suffix)
        )
