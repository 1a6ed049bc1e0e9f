"""Worker processes: one that ends takes its job alone."""

import os
from dataclasses import dataclass

import pytest

from janossy.batch import workers


@dataclass(frozen=True)
class Quick:
    """A job that returns its number, or ends its worker."""

    number: int
    dies: bool = False
    cost: float = 1.0

    def run(self, progress):
        if self.dies:
            os._exit(4)
        return self.number


def ends_at_once(pipe):
    os._exit(3)


@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.only_all)])
def test_a_worker_that_ends_before_it_reads_its_job(monkeypatch, num_workers):
    monkeypatch.setattr(workers, "run_until_none", ends_at_once)
    events = list(workers.work([Quick(0), Quick(1)], num_workers))
    failed = {event.job.number: event.value for event in events if event.kind == "failed"}
    assert failed.keys() == {0, 1} and all("ended with code 3" in reason for reason in failed.values())


@pytest.mark.only_all
def test_a_worker_that_ends_in_its_job():
    events = list(workers.work([Quick(0, dies=True), Quick(1)], 1, in_order=True))
    ended = [(event.kind, event.job.number) for event in events if event.kind != "started"]
    assert ended == [("failed", 0), ("done", 1)]
