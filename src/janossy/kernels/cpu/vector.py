"""SIMD vectors as a numba type, so that a kernel reads like scalar code and its sums stay in registers.

``load(a, offset)`` takes LANES[dtype] neighbouring numbers of a contiguous array; +, -, *, / and the functions below
work lane by lane, with a number on either side. LLVM maps a vector to whatever registers the CPU has. Products and
sums may be contracted and reassociated; NaN and infinities behave as in IEEE arithmetic.

An array of uint16 holds the bits of bfloat16 numbers. ``load`` gives them as a vector of float32, and ``store`` rounds
a vector of float32 to them.
"""

import operator

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, models, overload, register_model

from janossy.kernels.limits import LANES

_FLAGS = ("contract", "reassoc", "nsz", "arcp")
_INT32 = ir.IntType(32)
_WHOLES, _HALVES = (ir.VectorType(ir.IntType(bits), LANES["float32"]) for bits in (32, 16))
"""The bits of a vector of float32, and of as many numbers of bfloat16."""

_INLINED = {"forceinline": True, "error_model": "numpy"}

inlined = njit(**_INLINED)
"""Makes a function that LLVM writes into its callers. With ``inline="always"`` numba would copy it into each of them
and infer its types again, which took half of the time of compiling a kernel."""


def by_constants(function):
    """Makes an inlined function of the one that is returned for the types of arguments: literal ones for constants."""
    return overload(function, prefer_literal=True, jit_options=_INLINED)


class VectorType(types.Type):
    """A vector of floats; for uint16, the bits of bfloat16, of float32."""

    def __init__(self, dtype: types.Float) -> None:
        self.dtype = dtype = types.float32 if dtype == types.uint16 else dtype
        self.lanes = LANES[dtype.name]
        super().__init__(name=f"vector({dtype}, {self.lanes})")

    @property
    def integer(self) -> ir.IntType:
        """The integer of a lane's width."""
        return ir.IntType(self.dtype.bitwidth)


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector):
        scalar = ir.FloatType() if vector.dtype == types.float32 else ir.DoubleType()
        super().__init__(manager, vector, ir.VectorType(scalar, vector.lanes))


def _splat(builder, llvm_type, x):
    undefined = ir.Constant(llvm_type, ir.Undefined)
    first = builder.insert_element(undefined, x, ir.Constant(_INT32, 0))
    zeros = ir.Constant(ir.VectorType(_INT32, llvm_type.count), [0] * llvm_type.count)
    return builder.shuffle_vector(first, undefined, zeros)


def _address(context, builder, array_type, array, offset, llvm_type):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), llvm_type.as_pointer())


def _first_lanes(builder, llvm_type, num):
    """The mask of the first ``num`` lanes."""
    lanes = ir.Constant(ir.VectorType(_INT32, llvm_type.count), list(range(llvm_type.count)))
    return builder.icmp_signed("<", lanes, _splat(builder, lanes.type, builder.trunc(num, _INT32)))


def _masked(context, builder, vector, name, result, operands):
    llvm_type = context.get_value_type(vector)
    suffix = f"v{vector.lanes}f{vector.dtype.bitwidth}.p0"
    function_type = ir.FunctionType(result, [operand.type for operand in operands])
    function = builder.module.globals.get(f"llvm.masked.{name}.{suffix}") or ir.Function(
        builder.module, function_type, f"llvm.masked.{name}.{suffix}"
    )
    assert llvm_type.count == vector.lanes
    return builder.call(function, operands)


@intrinsic
def load(typing, array, offset):
    """The vector at ``offset`` of a contiguous array, in elements."""
    vector = VectorType(array.dtype)

    def codegen(context, builder, signature, arguments):
        llvm_type = context.get_value_type(vector)
        stored = _HALVES if array.dtype == types.uint16 else llvm_type
        pointer = _address(context, builder, signature.args[0], *arguments, stored)
        x = builder.load(pointer, align=array.dtype.bitwidth // 8)
        if array.dtype != types.uint16:
            return x
        # A float32 begins with the bits of the bfloat16 below it.
        bits = builder.shl(builder.zext(x, _WHOLES), ir.Constant(_WHOLES, [16] * vector.lanes))
        return builder.bitcast(bits, llvm_type)

    return vector(array, types.intp), codegen


@intrinsic
def store(typing, array, offset, x):
    """Put a vector at ``offset`` of a contiguous array, in elements."""

    def codegen(context, builder, signature, arguments):
        y = _to_bfloat16(builder, arguments[2]) if array.dtype == types.uint16 else arguments[2]
        pointer = _address(context, builder, signature.args[0], *arguments[:2], y.type)
        builder.store(y, pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, x), codegen


def _to_bfloat16(builder, x):
    """The bits of the bfloat16 numbers nearest to x, to even ones where two are; NaN as torch's."""

    def constant(number):
        return ir.Constant(_WHOLES, [number] * _WHOLES.count)

    bits = builder.bitcast(x, _WHOLES)
    odd = builder.and_(builder.lshr(bits, constant(16)), constant(1))
    nearest = builder.lshr(builder.add(bits, builder.add(odd, constant(0x7FFF))), constant(16))
    return builder.trunc(builder.select(builder.fcmp_unordered("uno", x, x), constant(0x7FC0), nearest), _HALVES)


@intrinsic
def load_first(typing, array, offset, num):
    """The first ``num`` lanes of the vector at ``offset``; the others are 0, and their memory is not touched."""
    vector = VectorType(array.dtype)

    def codegen(context, builder, signature, arguments):
        llvm_type = context.get_value_type(vector)
        pointer = _address(context, builder, signature.args[0], *arguments[:2], llvm_type)
        operands = [
            pointer,
            ir.Constant(_INT32, vector.dtype.bitwidth // 8),
            _first_lanes(builder, llvm_type, arguments[2]),
            ir.Constant(llvm_type, [0.0] * llvm_type.count),
        ]
        return _masked(context, builder, vector, "load", llvm_type, operands)

    return vector(array, types.intp, types.intp), codegen


@intrinsic
def store_first(typing, array, offset, x, num):
    """Put the first ``num`` lanes of a vector at ``offset``; the memory of the others is not touched."""

    def codegen(context, builder, signature, arguments):
        llvm_type = context.get_value_type(x)
        pointer = _address(context, builder, signature.args[0], *arguments[:2], llvm_type)
        operands = [
            arguments[2],
            pointer,
            ir.Constant(_INT32, x.dtype.bitwidth // 8),
            _first_lanes(builder, llvm_type, arguments[3]),
        ]
        _masked(context, builder, x, "store", ir.VoidType(), operands)
        return context.get_dummy_value()

    return types.void(array, types.intp, x, types.intp), codegen


def _binary(combine):
    """An operation on two vectors, or on a vector and a number."""

    @intrinsic
    def operation(typing, a, b):
        vector = a if isinstance(a, VectorType) else b

        def codegen(context, builder, signature, arguments):
            llvm_type = context.get_value_type(vector)
            operands = [
                x
                if isinstance(kind, VectorType)
                else _splat(builder, llvm_type, context.cast(builder, x, kind, vector.dtype))
                for x, kind in zip(arguments, signature.args, strict=True)
            ]
            return combine(builder, *operands)

        return vector(a, b), codegen

    return operation


def _operator(python_operator, combine):
    operation = _binary(combine)

    @overload(python_operator)
    def implementation(a, b):
        if isinstance(a, VectorType) or isinstance(b, VectorType):
            return lambda a, b: operation(a, b)
        return None


_operator(operator.add, lambda builder, a, b: builder.fadd(a, b, flags=_FLAGS))
_operator(operator.sub, lambda builder, a, b: builder.fsub(a, b, flags=_FLAGS))
_operator(operator.mul, lambda builder, a, b: builder.fmul(a, b, flags=_FLAGS))
_operator(operator.truediv, lambda builder, a, b: builder.fdiv(a, b, flags=_FLAGS))

quotient = _binary(lambda builder, a, b: builder.fdiv(a, b, flags=(*_FLAGS, "ninf")))
"""a / b of finite numbers, to two units in the last place: LLVM may refine the CPU's estimate of 1/b."""

minimum = _binary(lambda builder, a, b: builder.select(builder.fcmp_ordered("<", b, a), b, a))
"""The smaller of a and b; a, if it is NaN."""
maximum = _binary(lambda builder, a, b: builder.select(builder.fcmp_ordered(">", b, a), b, a))
"""The larger of a and b; a, if it is NaN."""
step = _binary(
    lambda builder, a, b: builder.select(
        builder.fcmp_ordered(">", a, b),
        ir.Constant(a.type, [1.0] * a.type.count),
        ir.Constant(a.type, [0.0] * a.type.count),
    )
)
"""1 where a > b, else 0."""


@intrinsic
def rounded(typing, x):
    """x to the nearest whole number."""

    def codegen(context, builder, signature, arguments):
        name = f"llvm.rint.v{x.lanes}f{x.dtype.bitwidth}"
        llvm_type = context.get_value_type(x)
        function = builder.module.globals.get(name) or ir.Function(
            builder.module, ir.FunctionType(llvm_type, [llvm_type]), name
        )
        return builder.call(function, arguments)

    return x(x), codegen


def _masked_eight(builder, dtype, name, result, operands):
    """The work of ``_masked`` on as many numbers of any dtype as a vector of float64 has lanes."""
    name = f"llvm.masked.{name}.v{LANES['float64']}f{dtype.bitwidth}.p0"
    function = builder.module.globals.get(name) or ir.Function(
        builder.module, ir.FunctionType(result, [operand.type for operand in operands]), name
    )
    return builder.call(function, operands)


@intrinsic
def load_first_float64(typing, array, offset, num):
    """The vector of ``load_first`` in float64, whatever the array holds."""
    wide, lanes = VectorType(types.float64), LANES["float64"]

    def codegen(context, builder, signature, arguments):
        llvm_type = ir.VectorType(context.get_value_type(array.dtype), lanes)
        pointer = _address(context, builder, signature.args[0], *arguments[:2], llvm_type)
        align = ir.Constant(_INT32, array.dtype.bitwidth // 8)
        mask, zero = _first_lanes(builder, llvm_type, arguments[2]), ir.Constant(llvm_type, [0.0] * lanes)
        x = _masked_eight(builder, array.dtype, "load", llvm_type, [pointer, align, mask, zero])
        return x if array.dtype == types.float64 else builder.fpext(x, context.get_value_type(wide))

    return wide(array, types.intp, types.intp), codegen


@intrinsic
def store_first_float64(typing, array, offset, x, num):
    """Put the first ``num`` lanes of a vector of float64 at ``offset``, whatever the array holds."""

    def codegen(context, builder, signature, arguments):
        llvm_type = ir.VectorType(context.get_value_type(array.dtype), x.lanes)
        pointer = _address(context, builder, signature.args[0], *arguments[:2], llvm_type)
        align = ir.Constant(_INT32, array.dtype.bitwidth // 8)
        mask = _first_lanes(builder, llvm_type, arguments[3])
        narrow = arguments[2] if array.dtype == types.float64 else builder.fptrunc(arguments[2], llvm_type)
        _masked_eight(builder, array.dtype, "store", ir.VoidType(), [narrow, pointer, align, mask])
        return context.get_dummy_value()

    return types.void(array, types.intp, x, types.intp), codegen


@intrinsic
def num_lanes(typing, array):
    """The lanes of a vector of the array's numbers."""
    lanes = VectorType(array.dtype).lanes

    def codegen(context, builder, signature, arguments):
        return ir.Constant(context.get_value_type(types.intp), lanes)

    return types.intp(array), codegen


def _fused(builder, llvm_type, a, b, c):
    bits = 32 if llvm_type.element == ir.FloatType() else 64
    name = f"llvm.fmuladd.v{llvm_type.count}f{bits}"
    function = builder.module.globals.get(name) or ir.Function(
        builder.module, ir.FunctionType(llvm_type, [llvm_type] * 3), name
    )
    return builder.call(function, [a, b, c])


@intrinsic
def multiply_add(typing, a, b, c):
    """a · b + c, rounded once where the CPU can, and never reassociated."""

    def codegen(context, builder, signature, arguments):
        llvm_type = context.get_value_type(c)
        operands = [
            x if isinstance(kind, VectorType) else _splat(builder, llvm_type, context.cast(builder, x, kind, c.dtype))
            for x, kind in zip(arguments, signature.args, strict=True)
        ]
        return _fused(builder, llvm_type, *operands)

    return c(a, b, c), codegen


def polynomial(coefficients: dict[str, list[float]]):
    """The function x -> c_0 + c_1 x + …, with its coefficients for each dtype."""

    @intrinsic
    def evaluate(typing, x):
        def codegen(context, builder, signature, arguments):
            llvm_type = context.get_value_type(x)
            constants = [ir.Constant(llvm_type, [float(c)] * x.lanes) for c in coefficients[x.dtype.name]]
            total = constants[-1]
            for c in constants[-2::-1]:
                total = _fused(builder, llvm_type, total, arguments[0], c)
            return total

        return x(x), codegen

    return evaluate


def _low_bits(builder, vector, x):
    """The bits of x + 1.5 · 2^(bits of a mantissa), the last of which hold the whole number nearest to x."""
    mantissa = 23 if vector.dtype == types.float32 else 52
    shifted = builder.fadd(x, ir.Constant(x.type, [1.5 * 2.0**mantissa] * vector.lanes))
    return builder.bitcast(shifted, ir.VectorType(vector.integer, vector.lanes)), mantissa


@intrinsic
def power_of_two(typing, x):
    """2 to the whole number nearest to x, for |x| ≤ 126, or 1022 in float64; anything where x is NaN."""

    def codegen(context, builder, signature, arguments):
        bits, mantissa = _low_bits(builder, x, arguments[0])
        one = (127 if mantissa == 23 else 1023) << mantissa
        power = builder.shl(bits, ir.Constant(bits.type, [mantissa] * x.lanes))
        return builder.bitcast(builder.add(power, ir.Constant(bits.type, [one] * x.lanes)), arguments[0].type)

    return x(x), codegen


@intrinsic
def negated_if_odd(typing, x, n):
    """(−1)^n · x, for n a vector of whole numbers below 2^22, or 2^51 in float64."""

    def codegen(context, builder, signature, arguments):
        bits, _ = _low_bits(builder, n, arguments[1])
        sign = builder.shl(bits, ir.Constant(bits.type, [n.dtype.bitwidth - 1] * n.lanes))
        return builder.bitcast(builder.xor(builder.bitcast(arguments[0], bits.type), sign), arguments[0].type)

    return x(x, n), codegen


unless_at_most = _binary(
    lambda builder, a, b: builder.select(
        builder.fcmp_ordered("<=", a, b),
        ir.Constant(a.type, [0.0] * a.type.count),
        ir.Constant(a.type, [1.0] * a.type.count),
    )
)
"""0 where a ≤ b, else 1, as where a is NaN."""


@intrinsic
def all_within(typing, x, bound):
    """Returns True if every |x| ≤ bound; NaN is not."""

    def codegen(context, builder, signature, arguments):
        limit = _splat(builder, arguments[0].type, context.cast(builder, arguments[1], bound, x.dtype))
        above = builder.fcmp_ordered("<=", arguments[0], limit)
        below = builder.fcmp_ordered(">=", arguments[0], builder.fsub(ir.Constant(limit.type, [-0.0] * x.lanes), limit))
        bits = builder.bitcast(builder.and_(above, below), ir.IntType(x.lanes))
        return builder.icmp_unsigned("==", bits, ir.Constant(bits.type, (1 << x.lanes) - 1))

    return types.boolean(x, bound), codegen


HALF = LANES["float64"]
"""Numbers in a vector of float64: half of those of float32."""

FLUSH = 128
"""Elements summed in the working precision before their sums are added in float64."""

CARRY = 32
"""Terms that are added in the working precision before they are carried to float64."""


@inlined
def add_to_float64(wide, at, x, scratch):
    """wide[at : at + lanes] += x, for wide in float64; scratch is a vector in the precision of x."""
    store(scratch, 0, x)
    for half in range(0, num_lanes(scratch), HALF):
        total = load(wide, at + half) + load_first_float64(scratch, half, HALF)
        store(wide, at + half, total)
