"""Version 2 of the format: digests, weights that predict nothing, limits, parts of a user's own."""

import json
import os
import signal
import subprocess
import sys
import time
from random import Random

import pytest
import torch
from torch import nn

from janossy import Canonical, JanossyNetwork, JanossyPooling, Ragged, TupleMLP, Tuples
from janossy.files.atomic import ClaimedByAnother, claimed
from janossy.nn import PooledNorm
from janossy.saving import SavedModelError, describe, load, register, save, weights, write_model
from janossy.saving.parts import KINDS, NAMES
from janossy.saving.reading import DESCRIPTION, TENSORS
from tests.saving.signing import resigned


def network(width: int = 4) -> JanossyNetwork:
    torch.manual_seed(0)
    rho = nn.Sequential(PooledNorm(width), nn.Linear(width, 1))
    return JanossyNetwork(None, JanossyPooling(TupleMLP(2, 3, width), Tuples(2)), rho)


@pytest.mark.parametrize("name", [DESCRIPTION, TENSORS])
def test_a_flipped_bit_is_an_error(name, tmp_path):
    path = save(network(), tmp_path / "model")
    good = (path / name).read_bytes()
    for place in (0, 4 * len(good), 8 * len(good) - 1):
        bad = bytearray(good)
        bad[place // 8] ^= 1 << place % 8
        (path / name).write_bytes(bad)
        with pytest.raises(SavedModelError):
            load(path)
    (path / name).write_bytes(good)
    load(path)


def test_weights_of_another_model_are_refused(tmp_path):
    one, other = save(network(), tmp_path / "one"), network()
    nn.init.ones_(other.rho[1].weight)
    save(other, tmp_path / "other")
    (one / TENSORS).write_bytes((tmp_path / "other" / TENSORS).read_bytes())
    with pytest.raises(SavedModelError, match=r"or of another model"):
        load(one)


def test_a_key_twice_is_refused(tmp_path):
    path = save(network(), tmp_path / "model")
    text = (path / DESCRIPTION).read_text()
    (path / DESCRIPTION).write_text(text.replace('"reduce": "mean"', '"reduce": "sum", "reduce": "mean"'))
    with pytest.raises(SavedModelError, match="a key twice"):
        load(path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rho.1.weight", float("nan"), r"finite weights.*; got rho\.1\.weight"),
        ("pooling.f.hidden.0.bias", float("-inf"), r"finite weights.*; got pooling\.f\.hidden\.0\.bias"),
        ("rho.1.bias", 3e38, r"finite weights.*; got rho\.1\.bias"),
        ("rho.0.running_var", -1.0, r"not negative; got rho\.0\.running_var"),
    ],
)
def test_weights_that_predict_nothing_are_refused(name, value, message, tmp_path):
    net = network()
    tensors = {each: tensor.clone() for each, tensor in weights(net).items()}
    tensors[name].view(-1)[0] = value
    with pytest.raises(SavedModelError, match=message):
        load(write_model(tmp_path / "model", {"network": describe(net)}, tensors))
    net.load_state_dict(tensors, strict=False)
    with pytest.raises(ValueError, match=message):
        save(net, tmp_path / "other")


@pytest.mark.parametrize("k", [10**7, 10**9, 3])
def test_an_orderings_k_is_bounded_before_rows_are_made(k, tmp_path):
    path = save(network(), tmp_path / "model")
    description = json.loads((path / DESCRIPTION).read_text())
    description["network"]["pooling"]["orderings"]["k"] = k
    resigned(path, description)
    with pytest.raises(SavedModelError, match=r"k of at most 1024|the same k for f and orderings; got TupleMLP of k=2"):
        load(path)


@pytest.mark.parametrize(
    "bomb", [b"[" + b"[]," * 2_000_000 + b"[]]", b"[" + b"1," * 5_000_000 + b"1]", b'"' + b'\\"' * 2**23]
)
def test_bombs_of_json_take_no_time(bomb, tmp_path):
    path = save(network(), tmp_path / "model")
    (path / DESCRIPTION).write_bytes(bomb)
    begin = time.process_time()
    with pytest.raises(SavedModelError, match="expects a description in JSON"):
        load(path)
    assert time.process_time() - begin < 5


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without pipes in files")
def test_pipes_and_devices_are_no_models(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(SavedModelError, match="got a pipe or a device"):
            load(tmp_path / name)
    path = save(network(), tmp_path / "model")
    (path / TENSORS).unlink()
    os.mkfifo(path / TENSORS)
    with pytest.raises(SavedModelError, match=r"got no file model\.safetensors"):
        load(path)


# Parts of a user's own.


class Scaled(nn.Module):
    def __init__(self, inner: nn.Module, factor: float) -> None:
        super().__init__()
        self.inner, self.factor = inner, factor

    def forward(self, x):
        return self.factor * self.inner(x)


def by_sum(x):
    return x.sum(1)


@pytest.fixture
def registered():
    before = dict(KINDS)
    yield register(Scaled), register(by_sum, name="tests.by_sum")
    for name in set(KINDS) - set(before):
        del NAMES[KINDS.pop(name)]


def own() -> JanossyNetwork:
    return JanossyNetwork(None, JanossyPooling(Scaled(TupleMLP(2, 3, 4), 2.0), Canonical(key=by_sum, k=2)), None)


def test_parts_of_a_users_own_come_back(registered, tmp_path):
    net, sets = own(), Ragged.from_sets([torch.randn(4, 3), torch.randn(2, 3)])
    again = load(save(net, tmp_path / "model"))
    assert torch.equal(again(sets), net(sets)) and again.pooling.orderings.key is by_sum
    assert type(again.pooling.f) is Scaled and again.pooling.f.factor == 2.0
    assert register(Scaled) is Scaled
    with pytest.raises(ValueError, match="a part and a name that are new"):
        register(nn.Softmax, name="tests.by_sum")


def test_a_file_imports_nothing(tmp_path):
    with pytest.raises(ValueError, match=r"or registered ones; got network\.pooling\.f, of type Scaled"):
        save(own(), tmp_path / "model")
    register(Scaled)
    path = save(JanossyNetwork(None, JanossyPooling(Scaled(nn.Flatten(), 1.0), Tuples(2)), None), tmp_path / "model")
    del NAMES[KINDS.pop("tests.saving.test_version_2.Scaled")]
    with pytest.raises(SavedModelError, match=r"parts of these names.*registered before it is loaded"):
        load(path)


# Whole or not at all.


def test_a_place_is_one_writers(tmp_path):
    path = tmp_path / "model"
    with claimed(path) as part:
        part.mkdir()
        with pytest.raises(ClaimedByAnother, match="another process is writing to model"), claimed(path):
            pass
        assert part.is_dir()
    assert not list(tmp_path.iterdir())


def test_what_killed_writers_left_is_cleared_and_brought_back(tmp_path):
    path = save(network(), tmp_path / "model")
    path.rename(tmp_path / ".model.0123456789abcdef.old")  # killed between its two steps
    (tmp_path / ".model.fedcba9876543210.part").mkdir()
    (tmp_path / ".model.mine.part").mkdir()
    with pytest.raises(FileExistsError):
        save(network(), path)
    assert load(path) and {each.name for each in tmp_path.iterdir()} == {"model", ".model.mine.part"}


KILLED = """
import sys
from tests.saving.test_version_2 import network
from janossy.saving import save
print("ready", flush=True)
while True:
    for width in (4, 5):
        save(network(width), sys.argv[1], overwrite=True)
"""


def law_a_kill_leaves_a_model(tmp_path, num):
    path = save(network(), tmp_path / "model")
    for seed in range(num):
        run = subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE)
        assert run.stdout.readline() == b"ready\n"
        end = time.monotonic() + Random(seed).uniform(0.05, 0.3)
        while time.monotonic() < end:
            load(path)  # at every moment
        run.send_signal(signal.SIGKILL)
        run.wait()
        load(path)
    save(network(), path, overwrite=True)
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


@pytest.mark.skipif(sys.platform != "linux", reason="the exchange of names is Linux's")
def test_a_kill_at_any_moment_leaves_a_model(tmp_path):
    law_a_kill_leaves_a_model(tmp_path, 1)


@pytest.mark.only_all
@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.skipif(sys.platform != "linux", reason="the exchange of names is Linux's")
def test_many_kills_leave_a_model(tmp_path):
    law_a_kill_leaves_a_model(tmp_path, 250)
