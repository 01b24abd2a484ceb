"""The one PATCH that lets kube-scheduler take a gated pod to its node, and how a pinned pod is recognised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from paictl.cluster.pods.reading import noted_on, pinned_node
from paictl.doors.binder import GONE, WORKERS, Binder, not_bound
from paictl.doors.core import Binding
from paictl.errors import PaictlError
from paictl.placer.core import PlacerCore, gates_of
from paictl.remote.kube import pods
from paictl.remote.kube.client import STRATEGIC, Json, KubeError, NoAnswerError
from paictl.scheduler.wire import BIND_INFO, GATE

_ATTEMPTS: Final = 3
"""Times that a pod which changes meanwhile is read again before the next round has to try."""
AWAY: Final = "the API server does not answer"
ASKED: Final = 4 * WORKERS
"""Pins of a gang that the API server is asked about before an answer counts: a refused gang costs no more than that."""


def pin_patch(pod: Mapping[str, Any], node: str, annotations: Mapping[str, str]) -> Json:
    """A patch: no gate, these annotations, and every term of the pod's own node affinity narrowed to the node.

    It names uid and version of the pod: the terms are replaced as a whole, and one added meanwhile must not be lost. It
    means the same as a merge patch and as a strategic one, and is sent as the latter: the API server then takes much
    less time over an annotation that names the places of a large gang.
    """
    own = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = (own or {}).get("nodeSelectorTerms") or [{}]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    narrowed = [
        {**term, "matchFields": [*(old for old in term.get("matchFields") or () if old != field), field]}
        for term in terms
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": narrowed}}
    about = pod["metadata"]
    return {
        "metadata": {
            "uid": about["uid"],
            **({"resourceVersion": about["resourceVersion"]} if "resourceVersion" in about else {}),
            "annotations": dict(annotations),
        },
        "spec": {"schedulingGates": None, "affinity": {"nodeAffinity": required}},
    }


def _shortened(binding: Binding) -> Binding:
    """A pin to ask about, without the places of the whole gang."""
    return replace(binding, annotations={**binding.annotations, BIND_INFO: binding.node})


class Pinner(Binder):
    """Pins pods while this process leads, in the same workers and with the same care at a term's end as bindings."""

    core: PlacerCore

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        # not the workers that pin: a gang waits there for its answers, and a few gangs would take all of them
        self._asking = ThreadPoolExecutor(WORKERS, "ask")

    def stop(self) -> None:
        """As any binder; nothing more is asked, either."""
        super().stop()  # first: a gang about which not all was asked must not be pinned any more
        self._asking.shutdown(wait=False, cancel_futures=True)

    def pin_soon(self, gang: Sequence[Binding]) -> None:
        """Pin the pods of a gang, or none of them, without anybody waiting for it."""
        try:
            self._pool.submit(self._pin, gang)
        except RuntimeError:  # this term has ended
            for binding in gang:
                not_bound(self.core, binding.ref)

    def _pin(self, gang: Sequence[Binding]) -> None:
        if not self.refused(gang):
            for binding in gang:
                self.bind_soon(binding)

    def refused(self, gang: Sequence[Binding]) -> bool:
        """Whether the API server would take a gang in part only; it is then told, and loses its place.

        A gang about which the API server does not answer keeps its place, and is asked about again.

        A pin cannot be taken back: a gang of which one pod is kept back by a policy would run in part for ever. So the
        API server is asked about all of them (a dry run, in which policies and webhooks take part) before the first.
        The annotation with the places of the gang is equally long for all pods, so it is asked about only once: for the
        pod whose own annotations are longest.

        A gang of which a pin was sent and not answered is not asked about any more: a refusal, as from an API server
        that starts and does not know any roles yet, would give away the place of a pod that is pinned.
        """
        refs = [binding.ref for binding in gang]
        why = "" if len(gang) == 1 or self.core.may_have_begun(refs) else self._first_refusal(gang)
        if why == AWAY:  # the first pins would be tried while it comes back, and the others later
            self.core.pin_later(refs)
        elif why:
            self.core.gang_refused(refs, why)
        return bool(why)

    def _first_refusal(self, gang: Sequence[Binding]) -> str:
        """Why the first pod of a gang that would be refused would be; empty if none would, or this term has ended."""
        longest = max(gang, key=self._noted)
        questions = [longest, *(_shortened(binding) for binding in gang if binding is not longest)]
        for first in range(0, len(questions), ASKED):
            try:
                asked = self._asking.map(self._refusal, questions[first : first + ASKED])
            except RuntimeError:  # this term has ended: no pin of the gang will be sent, either
                return ""
            try:
                if why := next(filter(None, asked), ""):
                    return why
            except CancelledError:
                return ""
        return ""

    def _noted(self, binding: Binding) -> int:
        """Characters of a pod's own annotations, which have a limit together with ours; -1 if it is not known."""
        pod = self.core.gated_pod(binding.ref.uid)
        return -1 if pod is None else sum(len(name) + len(text) for name, text in noted_on(pod).items())

    def _refusal(self, binding: Binding) -> str:
        """Why a pin would be refused whenever it is sent; empty if it would not, or nobody can know."""
        ref, pod = binding.ref, self.core.gated_pod(binding.ref.uid)
        if pod is None:
            return ""
        body, path = pin_patch(pod, binding.node, binding.annotations), pods.pod_path(ref.namespace, ref.name)
        try:
            self.client.request("PATCH", path, body, kind=STRATEGIC, query={"dryRun": "All"}, timeout=pods.BIND)
        except KubeError as error:
            passing = error.status in (404, 409) or not pods.is_refusal(error) or "dry run" in error.message
            return "" if passing else f"pod {ref.name}: {error.message}"
        except NoAnswerError:
            return "" if self._answers(binding) else AWAY  # an admission webhook may take longer than this request
        return ""

    def _answers(self, binding: Binding) -> bool:
        """Whether the API server answers about a pod."""
        try:
            pods.get(self.client, binding.ref.namespace, binding.ref.name)
        except NoAnswerError:
            return False
        except KubeError:
            return True
        return True

    def _attempt(self, binding: Binding, seconds: float) -> str:
        ref = binding.ref
        pod = self.core.gated_pod(ref.uid)
        try:
            for _ in range(_ATTEMPTS):
                if pod is None:
                    pod = pods.get(self.client, ref.namespace, ref.name)
                if pod is None or pod["metadata"].get("uid") != ref.uid:
                    return GONE
                if pinned_node(pod) == binding.node and noted_on(pod).get(BIND_INFO) == binding.annotations[BIND_INFO]:
                    return ""
                if gates_of(pod) != [GATE]:
                    return f"pod {ref.key} has other scheduling gates now: {', '.join(gates_of(pod)) or 'none'}"
                if self.core.claims is not None and (
                    why := self.core.claims.write(pod, binding.node, binding.devices, min(pods.BIND, seconds))
                ):
                    return why
                if self._patched(pod, binding, seconds):
                    return ""
                pod = None
        except NoAnswerError:
            return AWAY
        except PaictlError as error:
            return error.message
        return f"pod {ref.key} keeps changing"

    def _patched(self, pod: Json, binding: Binding, seconds: float) -> bool:
        """Send the patch; False if the pod has changed since it was read. Raises `KubeError`."""
        ref, body = binding.ref, pin_patch(pod, binding.node, binding.annotations)
        try:
            path = pods.pod_path(ref.namespace, ref.name)
            self.client.request("PATCH", path, body, kind=STRATEGIC, timeout=min(pods.BIND, seconds))
        except NoAnswerError:
            self.core.unanswered(ref)
            raise
        except KubeError as error:
            if error.status >= 500 and not pods.is_refusal(error):  # it may have been written
                self.core.unanswered(ref)
            if error.status not in (404, 409):
                raise
            return False
        return True

    def send(self, binding: Binding) -> str:
        """Pin a pod and say how it went; what is refused is tried again later, and the pod is told."""
        error = super().send(binding)
        if error == AWAY:
            self.core.pin_later([binding.ref])
        elif error and error != GONE:
            self.core.pin_failed(binding.ref, error)
        return error
