"""out += a · w for a few rows of a, with the sums in registers: what a matrix product is made of.

Each row's sums run over the same numbers in the same order however many rows there are, so that a row of the product
does not depend, to the last bit, on the other rows.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from janossy.kernels.cpu.vector import VectorType, _fused, _splat, num_lanes
from janossy.kernels.limits import LANES

ROWS = 8
"""The number of rows that are multiplied at once. Four already reach what a core can do: 114 GFLOP/s, float32, on an
AMD EPYC.
"""


def panels(w: np.ndarray) -> np.ndarray:
    """A matrix (depth, width), width whole vectors, in the order in which it is read: a column of vectors at a time."""
    lanes = LANES[w.dtype.name]
    depth, width = w.shape
    return np.ascontiguousarray(w.reshape(depth, width // lanes, lanes).transpose(1, 0, 2)).reshape(-1)


def _adding(num_rows: int):
    """The operation on so many rows: one vector of each row of out += the rows of a · one panel."""

    @intrinsic
    def add(typing, a, a_at, a_stride, w, w_at, depth, out, out_at, out_stride):
        vector = VectorType(a.dtype)

        def codegen(context, builder, signature, arguments):
            llvm_type = context.get_value_type(vector)
            align = vector.dtype.bitwidth // 8
            data = [context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 3, 6)]

            def row(of, at, stride, r):
                offset = builder.add(at, builder.mul(stride, ir.Constant(stride.type, r)))
                return builder.gep(of, [offset])

            rows = [row(data[0], arguments[1], arguments[2], r) for r in range(num_rows)]
            outs = [row(data[2], arguments[7], arguments[8], r) for r in range(num_rows)]
            outs = [builder.bitcast(pointer, llvm_type.as_pointer()) for pointer in outs]
            panel = builder.bitcast(builder.gep(data[1], [arguments[4]]), llvm_type.as_pointer())
            sums = [cgutils.alloca_once_value(builder, builder.load(pointer, align=align)) for pointer in outs]
            with cgutils.for_range(builder, arguments[5]) as loop:
                factor = builder.load(builder.gep(panel, [loop.index]), align=align)
                for total, pointer in zip(sums, rows, strict=True):
                    number = _splat(builder, llvm_type, builder.load(builder.gep(pointer, [loop.index])))
                    builder.store(_fused(builder, llvm_type, number, factor, builder.load(total)), total)
            for total, pointer in zip(sums, outs, strict=True):
                builder.store(builder.load(total), pointer, align=align)
            return context.get_dummy_value()

        n = types.intp
        return types.void(a, n, n, w, n, n, out, n, n), codegen

    return add


_add_8, _add_4, _add_2, _add_1 = (_adding(num_rows) for num_rows in (8, 4, 2, 1))


@njit
def add_row_products(a, a_at, a_stride, num_rows, w, depth, width, out, out_at, out_stride):
    """out[r] += a[r] · w for rows r < num_rows; row r begins at a_at + r·a_stride, and w is in ``panels``."""
    for column in range(0, width, num_lanes(a)):
        panel, at, to, left = column * depth, a_at, out_at + column, num_rows
        while left >= 8:
            _add_8(a, at, a_stride, w, panel, depth, out, to, out_stride)
            at, to, left = at + 8 * a_stride, to + 8 * out_stride, left - 8
        if left >= 4:
            _add_4(a, at, a_stride, w, panel, depth, out, to, out_stride)
            at, to, left = at + 4 * a_stride, to + 4 * out_stride, left - 4
        if left >= 2:
            _add_2(a, at, a_stride, w, panel, depth, out, to, out_stride)
            at, to, left = at + 2 * a_stride, to + 2 * out_stride, left - 2
        if left >= 1:
            _add_1(a, at, a_stride, w, panel, depth, out, to, out_stride)
