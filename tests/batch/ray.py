"""A local Ray, started once for all tests of a process."""

import pytest


@pytest.fixture(scope="session")
def ray():
    """Gives the module with a cluster of this machine: one CPU for reading, and two for workers, real or not."""
    ray = pytest.importorskip("ray")
    if ray.is_initialized():  # each module that imports this fixture has its own
        return ray
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # otherwise workers wait for the other tests
        patch.setenv("RAY_AUTH_MODE", "disabled")  # otherwise Ray writes a token into the home folder
        patch.setenv("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
        ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False)
    return ray
