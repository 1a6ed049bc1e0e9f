"""A kernel that compiles almost at once, and that another process can compile."""

from janossy.kernels.cpu.compiled import Kernel, kernel_maker


@kernel_maker
def scaling(factor):
    def scaled(x, first, last):
        for i in range(first, last):
            x[i] *= factor

    return Kernel(scaled, f"scaled_by_{factor}")
