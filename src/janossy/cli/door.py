"""The entry of a command line. Every failure is one line, even without the extra ``cli``."""

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper

EXTRAS = {
    "cli": ("typer", "rich", "jinja2", "matplotlib", "duckdb"),
    "excel": ("openpyxl",),
    "estimators": ("msgspec", "pyarrow", "sklearn", "safetensors"),
    "graph": ("torch_geometric",),
    "ray": ("ray",),
}
"""The packages that each extra installs."""


def main() -> None:
    """Runs the command ``janossy``."""
    run("janossy.cli.app", "janossy")


def run(module: str, program: str) -> None:
    """Runs the typer application ``app`` of a module, and exits.

    Bad arguments print one line and exit with code 2. Later failures print one line and exit with code 1.

    Args:
        module: the dotted name of the module. It is imported here, so that a missing package is one line too.
        program: the name that begins each error line.
    """
    _mend_streams()
    code = _run(module, program)
    try:
        sys.stdout.flush()
    except OSError as error:
        # Otherwise the interpreter flushes again at its end, and prints a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not code and not isinstance(error, BrokenPipeError):
            _say(program, str(error))
        code = code or 1
    sys.exit(code)


@contextmanager
def loading() -> Iterator[None]:
    """Leaves Ctrl-C to the system while modules are imported, before a command starts its work.

    Some of torch's modules abort if a KeyboardInterrupt is raised inside them.
    """
    is_ours = threading.current_thread() is threading.main_thread()
    is_ours = is_ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def load_torch() -> None:
    """Imports torch, inside ``loading``, before other modules that are large.

    The search for garbage then passes over it. When the interpreter ends, that saves half a second.
    """
    if "torch" not in sys.modules:
        import torch  # noqa: F401

        gc.freeze()  # not behind duckdb's import, whose objects must be freed, or it reports leaks


def _run(module: str, program: str) -> int:
    """Runs the application, and returns the exit code."""
    try:
        with loading():
            import typer

            app = import_module(module).app
    except ImportError as error:
        return _failed(error, program)
    except KeyboardInterrupt:
        return 130
    try:
        return app(standalone_mode=False) or 0
    except typer.TyperException as error:
        _say(program, error.format_message())
        return error.exit_code
    except BrokenPipeError:
        return 1
    except (ImportError, OSError, FloatingPointError) as error:
        return _failed(error, program)
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except SystemExit as stopped:  # raised by rich if the reader of a pipe has ended
        return int(stopped.code or 0)


def _failed(error: Exception, program: str) -> int:
    """Prints the reason, with the extra that would help, and returns 1. Our own ImportErrors name it in their cause."""
    lacking = next((each for each in (error.__cause__, error) if isinstance(each, ImportError)), None)
    for extra, packages in EXTRAS.items():
        if lacking is not None and (lacking.name or "").partition(".")[0] in packages:
            who = "the command line" if extra == "cli" else "this command"
            _say(program, f"{who} needs the extra {extra}: pip install 'janossy[{extra}]' ({lacking})")
            return 1
    _say(program, str(error) if isinstance(error, FloatingPointError) else f"{error} (what was finished is kept)")
    return 1


def _mend_streams() -> None:
    """Makes both streams accept any text: ? or an escape for other characters. Closed streams lead nowhere."""
    for name, errors in (("stdout", "replace"), ("stderr", "backslashreplace")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=errors)


def _say(program: str, message: str) -> None:
    if message:
        print(f"{program}: {' '.join(message.split())}", file=sys.stderr)
