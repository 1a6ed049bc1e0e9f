"""The same fit on a Ray cluster: one actor per process, on any machines."""

import argparse
import os
import socket
from pathlib import Path

import ray
from fit import fit


@ray.remote(num_cpus=1)
class Process:
    """One of the processes of a fit. They find each other like those of torchrun."""

    def place(self) -> dict[str, str]:
        """Returns the address at which the first process listens."""
        with socket.socket() as free:
            free.bind(("", 0))
            return {"MASTER_ADDR": ray.util.get_node_ip_address(), "MASTER_PORT": str(free.getsockname()[1])}

    def fit(self, rank: int, num: int, place: dict[str, str], paths: list[str]) -> None:
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(num), **place}
        fit(*paths)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", type=Path)
    parser.add_argument("--out", type=Path, default=Path("model"))
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint"))
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    paths = [str(path.absolute()) for path in (given.sets, given.out, given.checkpoint)]
    here = {"env_vars": {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])}}
    ray.init(runtime_env=here, ignore_reinit_error=True)
    processes = [Process.remote() for _ in range(given.workers)]
    place = ray.get(processes[0].place.remote())
    ray.get([process.fit.remote(rank, given.workers, place, paths) for rank, process in enumerate(processes)])


if __name__ == "__main__":
    main()
