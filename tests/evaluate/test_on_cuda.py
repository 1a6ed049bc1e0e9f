"""The conditions under which Triton's kernels run, without a GPU: what is asked of a device is answered here."""

import importlib
import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from janossy.evaluate import on_kernels
from janossy.evaluate.tuples.operators import PRODUCT_MEANS, SERIES_MEANS, TUPLE_MEANS, times_by_set

cuda = pytest.importorskip("janossy.kernels.cuda.tuple_means", reason="needs Triton", exc_type=ImportError)
MODULES = {
    name: importlib.import_module(f"janossy.kernels.cuda.{name}")
    for name in ("tuple_means", "series_means", "product_means")
}


@pytest.fixture
def gpu(monkeypatch):
    """Gives a GPU of some compute capability, as torch would report it. Tensors on it hold no numbers."""

    def gpu(capability=(8, 0)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Some GPU")
        on_kernels.is_new_enough.cache_clear()

    for module in MODULES.values():
        monkeypatch.setattr(module, "on_device_of", lambda x: nullcontext())
    with FakeTensorMode():
        gpu()
        yield gpu
    on_kernels.is_new_enough.cache_clear()


@pytest.mark.parametrize(
    ("dtype", "k", "taken"),
    [
        (torch.float32, 4, True),
        (torch.bfloat16, 1, True),
        (torch.float32, 5, False),
        (torch.float64, 2, False),
        (torch.float16, 2, False),
    ],
)
@pytest.mark.usefixtures("gpu")
def test_what_the_kernels_take(dtype, k, taken):
    assert on_kernels.takes_means("tuple_means", torch.empty(3, k, 4, dtype=dtype, device="cuda")) == taken


@pytest.mark.usefixtures("gpu")
def test_what_has_no_kernel_on_a_gpu_runs_in_torch_operations():
    """Every operator is taken where it has a function, and only there."""
    p = torch.empty(3, 2, 4, device="cuda")
    for operator in (TUPLE_MEANS, SERIES_MEANS, PRODUCT_MEANS):
        assert on_kernels.takes_means(operator.name, p) == hasattr(on_kernels.load("cuda"), operator.name)


def test_an_old_gpu_is_told_of_once(gpu, recwarn):
    gpu((7, 5))
    for _ in range(2):
        assert not on_kernels.takes_means("tuple_means", torch.empty(3, 2, 4, device="cuda"))
    assert [str(w.message) for w in recwarn if w.category is RuntimeWarning] == [
        "pooling on cuda:0 runs in torch operations, which is slower: Some GPU has compute capability 7.5, and the "
        "kernels expect 8.0 (A100) or newer."
    ]


def test_two_devices_are_an_error():
    message = r"expects elements and offsets on one device; got them on meta and cpu. Move the sets by .to\(device\)."
    with pytest.raises(ValueError, match=message):
        on_kernels.means_and_slopes("tuple_means", torch.empty(3, 2, 4, device="meta"), torch.tensor([0, 3]), False)


@pytest.mark.usefixtures("gpu")
def test_too_little_memory_says_for_what(monkeypatch):
    new_zeros = torch.Tensor.new_zeros

    def full(self, *shape, **options):
        if isinstance(shape[0], tuple) and len(shape[0]) == 4:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate …")
        return new_zeros(self, *shape, **options)

    p, offsets = torch.empty(3 * 2**20, 2, 64, device="cuda"), torch.empty(2, dtype=torch.int64, device="cuda")
    monkeypatch.setattr(torch.Tensor, "new_zeros", full)
    monkeypatch.setattr(cuda, "splits", lambda *_: 1)
    sums = "another 1,536 MiB on cuda:0, for sums beside 3145728 elements at 2 positions and 64 hidden units"
    message = f"{sums}.*Pool fewer sets at once; for one set that is too large"
    with pytest.raises(torch.OutOfMemoryError, match=message) as error:
        cuda.tuple_means(p, offsets, False, "tanh", True)
    assert "Tried to allocate" in str(error.value.__cause__)


PROGRAM = """
import sys, warnings
{before}
from janossy.kernels import load
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert load("cuda") is None and load("cuda") is None
[warning] = [w for w in caught if issubclass(w.category, RuntimeWarning)]
print(warning.message)
"""
MISSING = "sys.modules['triton'] = None"
BROKEN = "import triton; del triton.jit"


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (MISSING, "Triton is not installed; pip install 'janossy[cuda]' for the compiled kernels."),
        pytest.param(
            BROKEN,
            "Triton does not load (AttributeError: module 'triton' has no attribute 'jit'); please report this.",
            marks=pytest.mark.only_all,
        ),
    ],
)
def test_without_triton_pooling_goes_on_and_says_so_once(before, why):
    program = PROGRAM.format(before=before)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"pooling on a CUDA device runs in torch operations, which is slower: {why}"


class Allocated(TorchDispatchMode):
    """A count of the bytes of tensors on the GPU that live at one time, at most."""

    def __init__(self):
        super().__init__()
        self.sizes, self.most = {}, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor) and found.is_cuda:
            self.sizes[StorageWeakRef(found.untyped_storage())] = found.untyped_storage().nbytes()
        self.sizes = {storage: size for storage, size in self.sizes.items() if not storage.expired()}
        self.most = max(self.most, sum(self.sizes.values()))
        return found


class NotLaunched:
    def __getitem__(self, grid):
        return lambda *arguments, **constants: None


LAUNCHED = {
    "tuple_means": ("tuple_sums", "tuple_means_of_sums"),
    "series_means": ("extents", "plan_sets", "means_of_values"),
    "product_means": ("segments", "scan", "slopes_of_segments"),
}
OF_SERIES = {
    "series_injective": ("power_sums", "partitions", "slopes_by_power_sums"),
    "series_increasing": ("chains", "scan", "slopes_by_chains"),
}


@pytest.fixture
def not_launched(monkeypatch):
    """Runs only the host's part of the kernels, on a GPU that 2000 programs keep busy."""
    for name, module in MODULES.items():
        for kernel in LAUNCHED[name]:
            monkeypatch.setattr(module, kernel, NotLaunched())
        monkeypatch.setattr(module, "programs_wanted", lambda x: 2000)
    for name, kernels in OF_SERIES.items():
        for kernel in kernels:
            monkeypatch.setattr(getattr(MODULES["series_means"], name), kernel, NotLaunched())


@pytest.mark.usefixtures("gpu", "not_launched")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("tuple_means", ("gelu",)),
        ("tuple_means", ("sine",)),
        ("series_means", ("gelu", 1e-5, -1)),
        ("series_means", ("sine", 1e-5, -1)),
        ("product_means", ()),
    ],
    ids=["fused, gelu", "fused, sine", "spectral, gelu", "spectral, sine", "permanent"],
)
def test_at_most_four_arrays_live_at_one_time(name, parameters, increasing, k, dtype):
    """Forward and backward, the elements' own numbers among them, in float32; nothing asks the device for a number,
    which a fake tensor does not have."""
    num_sets, n, H = 5000, 100, 64
    with Allocated() as allocated:
        p = torch.empty(num_sets * n, k, H, device="cuda", dtype=dtype)
        offsets = torch.empty(num_sets + 1, dtype=torch.int64, device="cuda")
        means, slopes = getattr(MODULES[name], name)(p, offsets, increasing, *parameters, True)
        times_by_set(slopes, means, offsets)
    array = 4 * p.numel()
    assert (2 if dtype == torch.float32 else 1) * array < allocated.most < 4.1 * array


@pytest.mark.usefixtures("gpu", "not_launched")
@pytest.mark.parametrize(("num_sets", "n"), [(1, 10**6), (8, 2000), (20_000, 12)])
@pytest.mark.parametrize("increasing", [False, True])
def test_sums_take_a_bounded_part_beside_four_arrays(increasing, num_sets, n):
    """However sets are: few and large ones, shared by many programs, and many small ones."""
    for k in (2, 4):
        with Allocated() as allocated:
            p = torch.empty(num_sets * n, k, 64, device="cuda")
            offsets = torch.empty(num_sets + 1, dtype=torch.int64, device="cuda")
            MODULES["series_means"].series_means(p, offsets, increasing, "tanh", 1e-5, -1, True)
        assert allocated.most < 4.1 * p.nbytes + 2**27
