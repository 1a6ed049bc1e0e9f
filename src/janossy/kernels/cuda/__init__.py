"""The kernels that Triton compiles for CUDA devices: tensors in and out, float32 or bfloat16, sums in float32."""
