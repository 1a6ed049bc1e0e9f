"""``python -m studies``: run from the root of a checkout."""

from janossy.cli.door import run


def main() -> None:
    """Runs the commands of the studies."""
    run("studies.app", "studies")


if __name__ == "__main__":
    main()
