"""Many news at once mean the same as one after the other: one state machine."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paictl.workload.job import Completion, HivedExtras, Job, Resources, TaskRole
from paictl.workload.lifecycle import PodChange, TaskRef, advance, catch_up, submit


def job(*, gang: bool, retries: int, job_retries: int) -> Job:
    def role(name: str, instances: int, completion: Completion) -> TaskRole:
        return TaskRole(name, instances, Resources(1, 1, 1), "image", ("run",), completion, retries, HivedExtras())

    roles = (role("a", 3, Completion(2, None)), role("b", 2, Completion(1, 2)))
    return Job("job", "vc", "test", roles, job_retries, gang)


NEWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(0, 1),
        st.integers(0, 4),
        st.sampled_from(list(PodChange)),
    ),
    max_size=60,
)


@given(NEWS, st.booleans(), st.integers(-2, 2), st.integers(-2, 2))
def test_catching_up_is_advancing_step_by_step(
    found: list[tuple[str, int, int, PodChange]], gang: bool, retries: int, job_retries: int
) -> None:
    one = job(gang=gang, retries=retries, job_retries=job_retries)
    news = [(TaskRef(role, index, incarnation), what) for role, index, incarnation, what in found]
    begun = submit(one).status
    status = begun
    for pod, what in news:
        status = advance(one, status, pod, what).status
    assert catch_up(one, begun, news) == status
