"""Numbers below the smallest normal one, 1e-38 in float32, as zero.

The gradients of a recurrence vanish along a long row, and below that number an x86 takes some hundred cycles for an
operation: in kernels, and in products with what they give.
"""

import platform

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
_INT32 = ir.IntType(32)
_FLUSH = 0x8040
"""The bits FTZ and DAZ of the register MXCSR, of each thread (Intel's manual, volume 1, section 10.2.3)."""


@intrinsic
def flush_denormals(typing):
    """From here on they are zero, read or written, on this thread; returns the mode before. x86 only, else nothing."""

    def codegen(context, builder, signature, arguments):
        if not _IS_X86:
            return ir.Constant(_INT32, 0)
        mode = _call(builder, "stmxcsr")
        _call(builder, "ldmxcsr", builder.or_(mode, ir.Constant(_INT32, _FLUSH)))
        return mode

    return types.uint32(), codegen


@intrinsic
def restore(typing, mode):
    """The mode before ``flush_denormals``."""

    def codegen(context, builder, signature, arguments):
        if _IS_X86:
            _call(builder, "ldmxcsr", arguments[0])
        return context.get_dummy_value()

    return types.void(types.uint32), codegen


def _call(builder, instruction, value=None):
    """``ldmxcsr`` of a value, or ``stmxcsr``, whose value is returned: both go through memory."""
    with builder.goto_entry_block():
        slot = builder.alloca(_INT32)
    if value is not None:
        builder.store(value, slot)
    pointer = builder.bitcast(slot, ir.IntType(8).as_pointer())
    name = f"llvm.x86.sse.{instruction}"
    function = builder.module.globals.get(name) or ir.Function(
        builder.module, ir.FunctionType(ir.VoidType(), [pointer.type]), name
    )
    builder.call(function, [pointer])
    return builder.load(slot)
