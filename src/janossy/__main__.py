"""``python -m janossy``: the command, also where its script is not on the path."""

from janossy.cli import main

if __name__ == "__main__":
    main()
