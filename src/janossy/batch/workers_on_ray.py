"""Jobs in Ray's actors, on the cluster of this process or of RAY_ADDRESS, or else on this machine."""

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ImportError as error:
    raise ImportError("--engine ray needs Ray: pip install 'janossy[ray]'.", name="ray") from error

from janossy.batch.workers import Event, J, Job


class _RayWorker:
    def run(self, job: Job) -> Any:
        return job.run(lambda units: None)


def work(jobs: Sequence[J], num_workers: int) -> Iterator[Event[J]]:
    """Runs the jobs in ``num_workers`` actors of one CPU, the most expensive first, and yields events but no progress.

    If an actor dies, its job fails. Another actor is started for the jobs that are left.
    """
    ours = not ray.is_initialized()
    if ours:
        _connect(num_workers)
    actor: Any = ray.remote(num_cpus=1)(_RayWorker)
    waiting = sorted(reversed(jobs), key=lambda job: job.cost)
    idle: list[Any] = []
    running: dict[Any, tuple[J, Any]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < num_workers:
                job, worker = waiting.pop(), idle.pop() if idle else actor.remote()
                running[worker.run.remote(job)] = job, worker
                yield Event("started", job)
            (done, *_), _ = ray.wait(list(running))
            job, worker = running.pop(done)
            try:
                event = Event("done", job, ray.get(done))
            except RayTaskError as error:
                event = Event("failed", job, f"{type(error.cause).__name__}: {error.cause}")
            except RayError as error:
                reason = " ".join(str(error).split())[:300]
                yield Event("failed", job, f"its worker died ({type(error).__name__}: {reason})")
                continue
            idle.append(worker)
            yield event
    finally:
        for worker in [*idle, *(worker for _, worker in running.values())]:
            ray.kill(worker)
        if ours:
            ray.shutdown()


def _connect(num_workers: int) -> None:
    address = os.environ.get("RAY_ADDRESS", "local")
    here: dict[str, Any] = {"num_cpus": num_workers, "include_dashboard": False} if address == "local" else {}
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **here)
