"""The message of a command that does not do what it was asked for."""

import typer


class BadArgument(typer.TyperException):
    """An argument of a command, or a file that it names, that is refused, in one line."""

    exit_code = 2
