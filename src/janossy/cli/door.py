"""The door of the command line: one line for whatever goes wrong, also without the extra ``cli``."""

import os
import sys
from io import TextIOWrapper

EXTRA = ("typer", "rich", "jinja2", "matplotlib")
"""What the extra ``cli`` brings."""


def main() -> None:
    """Run the command line. Bad arguments give one line and exit code 2; what fails later, one line and 1."""
    _mend_streams()
    code = _run()
    try:
        sys.stdout.flush()
    except OSError as error:
        # Else the interpreter tries again as it ends, and prints a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not code and not isinstance(error, BrokenPipeError):
            _say(str(error))
        code = code or 1
    sys.exit(code)


def _run() -> int:
    """The exit code."""
    try:
        import typer

        from janossy.cli.app import app
    except ImportError as error:
        return _lacking(error)
    try:
        return app(standalone_mode=False) or 0
    except typer.TyperException as error:
        _say(error.format_message())
        return error.exit_code
    except BrokenPipeError:
        return 1
    except ImportError as error:
        if (error.name or "").partition(".")[0] in EXTRA:
            return _lacking(error)
        _say(f"{error} (what was finished is kept)")
        return 1
    except OSError as error:
        _say(f"{error} (what was finished is kept)")
        return 1
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except SystemExit as stopped:  # rich's, when the reader of a pipe has gone
        return int(stopped.code or 0)


def _lacking(error: ImportError) -> int:
    _say(f"the command line needs the extra cli: pip install 'janossy[cli]' ({error})")
    return 1


def _mend_streams() -> None:
    """Let both streams take any text: a ? or an escape for what their encoding lacks. Closed ones lead nowhere."""
    for name, errors in (("stdout", "replace"), ("stderr", "backslashreplace")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=errors)


def _say(message: str) -> None:
    if message:
        print(f"janossy: {' '.join(message.split())}", file=sys.stderr)
