"""A local Ray, started once for all tests of a process."""

import pytest


@pytest.fixture(scope="session")
def ray():
    """The module, with a cluster of this machine: a CPU for reading, and two for workers, however many there are."""
    ray = pytest.importorskip("ray")
    if ray.is_initialized():  # each module that imports this fixture has one of its own
        return ray
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # else they wait for the other tests
        patch.setenv("RAY_AUTH_MODE", "disabled")  # else it writes a token into the home folder
        patch.setenv("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
        ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False)
    return ray
