"""Errors of commands that refuse an argument."""

import typer


class BadArgument(typer.TyperException):
    """An argument of a command, or a file that it names, that is refused. The message is one line."""

    exit_code = 2
