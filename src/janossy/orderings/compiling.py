"""What torch.compile is told of our functions."""

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def constant_when_compiled(function: Function) -> Function:
    """Let torch.compile take what the function returns as a constant.

    ``torch.compiler.assume_constant_result`` does no more (tests/test_compile.py compares them), but imports all of
    ``torch._dynamo`` first: a second, for which those who compile nothing would wait too.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
