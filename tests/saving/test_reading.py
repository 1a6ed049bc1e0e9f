"""Saved files of anybody's: one clear error, no code, and no more memory than they have bytes."""

import json
import pickle
import resource
import struct
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

from janossy import GRU, JanossyNetwork, JanossyPooling, Sampled, TupleProduct, Tuples
from janossy.functions import FeaturedMLP, TupleFeatures
from janossy.nn import ColumnEmbedding
from janossy.saving import SavedModelError, describe, load, rebuild, save, weights, write_model
from janossy.saving.reading import DESCRIPTION as DESCRIPTION_FILE
from janossy.saving.reading import TENSORS as TENSORS_FILE
from tests.saving.signing import resigned


def network(num_layers: int = 1) -> JanossyNetwork:
    torch.manual_seed(0)
    return JanossyNetwork(None, JanossyPooling(GRU(2, 3, num_layers=num_layers), Sampled(1)), nn.Linear(3, 1))


def saved(tmp_path, net=None):
    return save(network() if net is None else net, tmp_path / "model")


def rewritten(path, change) -> None:
    file = path / DESCRIPTION_FILE
    content = change(json.loads(file.read_text()))
    resigned(path, content)


def with_network(**changes):
    return lambda given: given | {"network": given["network"] | changes}


def with_f(part, **arguments):
    def change(given):
        given["network"]["pooling"]["f"] = {"part": part, **arguments}
        return given

    return change


def with_rho(rho):
    return with_network(rho=rho)


def deep(levels):
    rho = {"part": "ReLU"}
    for _ in range(levels):
        rho = {"part": "Sequential", "modules": [rho]}
    return rho


HUGE = 10**15
GRU_OF = {
    "in_features": 2, "hidden_features": 3, "num_layers": 1, "dropout": 0.0, "bidirectional": False,
    "per_position": False, "unrolled": False,
}  # fmt: skip
LINEAR = {"part": "Linear", "in_features": 3, "out_features": 1, "bias": True}

DESCRIPTIONS = {
    "no JSON": (lambda given: "{", "expects a description in JSON; got model.json, which is not JSON"),
    "not UTF-8": (lambda given: "\udcff", None),
    "a list": (lambda given: [], "expects a JSON object as description; got list"),
    "NaN": (lambda given: '{"a": NaN}', "expects a description in JSON"),
    "a number of a million digits": (lambda given: '{"a": ' + "9" * 10**6 + "}", "expects a description in JSON"),
    "nested without end": (lambda given: "[" * 10**6, "expects a description in JSON"),
    "nested without end, closed": (lambda given: "[" * 10**6 + "]" * 10**6, "expects a description in JSON"),
    "another format": (lambda given: given | {"format": "pickle"}, "expects format 'janossy model'; got 'pickle'"),
    "no format": (lambda given: {"network": given["network"]}, "expects format 'janossy model'; got None"),
    "another version": (
        lambda given: given | {"version": 3, "written_by": {"janossy": "9.9"}},
        r"expects version 1 or 2 of the format.*; got 3, written by janossy '9.9'. Load it with that version",
    ),
    "version True": (lambda given: given | {"version": True}, "expects version 1 or 2 of the format.*; got True"),
    "written by a list": (lambda given: given | {"written_by": []}, "expects versions by name as written_by; got list"),
    "no network": (lambda given: {k: v for k, v in given.items() if k != "network"}, "a description as describe makes"),
    "another part as network": (lambda given: given | {"network": LINEAR}, "a description as describe makes it"),
    "a number as network": (lambda given: given | {"network": 3}, "a description as describe makes it"),
    "a list as network": (lambda given: given | {"network": [given["network"]]}, "a description as describe makes it"),
    "a module of torch by path": (with_rho({"part": "torch.nn.Softmax"}), "parts of these names: .*got 'torch.nn.Soft"),
    "code": (with_rho({"part": "os.system", "command": "touch owned"}), "parts of these names: .*got 'os.system'"),
    "a dunder": (with_rho({"part": "__import__", "name": "os"}), "parts of these names"),
    "a part of no name": (with_rho({"part": ["ReLU"]}), "parts of these names"),
    "an unknown argument": (with_rho(LINEAR | {"device": "cuda"}), "arguments that build its parts"),
    "a missing argument": (with_rho({"part": "Linear", "in_features": 3}), "arguments that build its parts"),
    "a wrong type": (with_rho(LINEAR | {"in_features": "3"}), "arguments that build its parts"),
    "a wrong type that builds": (with_rho(LINEAR | {"bias": 1.5}), "bias as true or false; got 1.5"),
    "text for a number that torch does not check": (
        with_rho({"part": "LeakyReLU", "negative_slope": "os.system", "inplace": False}),
        "negative_slope as a finite number; got 'os.system'",
    ),
    "null for a number": (
        with_rho({"part": "LayerNorm", "normalized_shape": [3], "eps": None, "elementwise_affine": False,
                  "bias": False}),
        "eps as a finite number; got None",
    ),
    "true for a number": (
        with_rho({"part": "BatchNorm1d", "num_features": 3, "eps": 1e-5, "momentum": True, "affine": True,
                  "track_running_stats": True}),
        "momentum as a finite number or null; got True",
    ),
    "a part for a number": (with_rho(LINEAR | {"in_features": {"part": "ReLU"}}), "arguments that build its parts"),
    "an ordering for a key": (
        lambda given: given | {"network": given["network"] | {"pooling": given["network"]["pooling"] | {
            "orderings": {"part": "Canonical", "key": {"part": "Tuples", "k": 2, "max_rows": 10}}}}},
        "as describe makes it|arguments that build",
    ),
    "an ordering for a module": (with_rho({"part": "Tuples", "k": 2, "max_rows": 10}), "arguments that build its p"),
    "a module for an ordering": (
        lambda given: given | {"network": given["network"] | {"pooling": given["network"]["pooling"] | {
            "orderings": {"part": "ReLU", "inplace": False}}}},
        "arguments that build its parts",
    ),
    "deep parts": (with_rho(deep(200)), "parts at most 64 deep; got deeper ones"),
    "many parts": (
        with_rho({"part": "Sequential", "modules": [{"part": "Tanh"}] * 20_000}),
        "at most 10000 parts; got more",
    ),
    "a huge layer": (
        with_rho(LINEAR | {"in_features": HUGE, "out_features": HUGE}),
        "arguments that build its parts|rho.weight of shape",
    ),
    "a large layer": (
        with_rho(LINEAR | {"in_features": 10**5, "out_features": 10**5}),
        r"expects rho.* of shape \(100000.*; got \(1",
    ),
    "a layer of another width": (with_rho(LINEAR | {"out_features": 2}), r"rho.weight of shape \(2, 3\); got \(1,"),
    "a huge number": (with_rho(LINEAR | {"in_features": 10**400}), "arguments that build its parts"),
    "a thousand million layers": (with_f("GRU", **GRU_OF | {"num_layers": 10**9}), "GRU with more tensors than 6"),
    "many layers": (with_f("GRU", **GRU_OF | {"num_layers": 7}), "GRU with more tensors than 6 tensors"),
    "more layers than there are": (with_f("GRU", **GRU_OF | {"num_layers": 2}), "GRU with more tensors than 6 tensors"),
    "a hundred thousand widths": (
        with_f("TupleMLP", k=2, in_features=2, hidden_features=[1] * 10**5, out_features=None, activation="tanh"),
        "Linear with more tensors than 6 tensors",
    ),
    "many products": (
        with_f("TupleProduct", k=10**9, in_features=2, rank=1, out_features=None, g=None),
        "k of at most 1024; got 1000000000",
    ),
    "other weights": (with_rho({"part": "ReLU", "inplace": False}), "weights for 4 names; got 6, .* rho.bias"),
    "many pairs": (
        with_f("TupleFeatures", k=10**9, in_features=2, differences=[0], absolute_differences=[], products=[],
               equal=[], distances=[], units={}, periods={}),
        "k of at most 1024; got 1000000000",
    ),
}  # fmt: skip


def bounded(run, num_bytes: int = 400 * 2**20):
    """Returns the run, with so much address space more than there is now."""
    if not Path("/proc/self/statm").exists():  # not Linux
        return run()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + num_bytes, hard))
    try:
        return run()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.parametrize("case", DESCRIPTIONS)
def test_hostile_descriptions(case, tmp_path, monkeypatch):
    change, message = DESCRIPTIONS[case]
    path = saved(tmp_path)
    monkeypatch.chdir(tmp_path)
    if message is None:
        (path / DESCRIPTION_FILE).write_bytes(b'{"a": "\xff"}')
    else:
        rewritten(path, change)
    with pytest.raises(SavedModelError, match=message) as caught:
        bounded(lambda: load(path))
    assert len(str(caught.value)) < 1200 and "\n" not in str(caught.value).strip()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["model"]


def header_of(tensors: dict, data: bytes) -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(shape, offsets, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


class Evil:
    def __reduce__(self):
        return print, ("owned",)


SAFETENSORS = {
    "empty": lambda good: b"",
    "cut short": lambda good: good[: len(good) - 5],
    "cut in its header": lambda good: good[:40],
    "longer": lambda good: good + b"1234",
    "a pickle": lambda good: pickle.dumps(Evil()),
    "a header of exabytes": lambda good: struct.pack("<Q", 2**62) + good[8:],
    "a tensor of exabytes": lambda good: header_of({"rho.weight": tensor([2**40, 2**20], [0, 2**62])}, b"1234"),
    "a tensor of more than its bytes": lambda good: header_of({"rho.weight": tensor([1, 3], [0, 4])}, b"1234"),
    "a shape that overflows": lambda good: header_of({"rho.weight": tensor([2**62, 4, 2], [0, 4])}, b"1234"),
    "offsets outside": lambda good: header_of({"rho.weight": tensor([1], [4, 8])}, b"1234"),
    "offsets backwards": lambda good: header_of({"rho.weight": tensor([1], [4, 0])}, b"1234"),
    "overlapping tensors": lambda good: header_of({"a": tensor([1], [0, 4]), "b": tensor([1], [0, 4])}, b"1234"),
    "an unknown dtype": lambda good: header_of({"rho.weight": tensor([1], [0, 4], "PICKLE")}, b"1234"),
    "a deep header": lambda good: struct.pack("<Q", 20_000) + b'{"a":' + b"[" * 19_994 + b"}" + b"1234",
    "no header": lambda good: header_of([], b""),
}


@pytest.mark.parametrize("case", SAFETENSORS)
def test_damaged_tensors(case, tmp_path, capsys):
    path = saved(tmp_path)
    file = path / TENSORS_FILE
    file.write_bytes(SAFETENSORS[case](file.read_bytes()))
    with pytest.raises(SavedModelError, match=r"expects model\.safetensors with the digest"):
        bounded(lambda: load(path))
    resigned(path)
    with pytest.raises(SavedModelError, match=r"expects tensors as safetensors writes them; got .* damaged"):
        bounded(lambda: load(path))
    assert "owned" not in capsys.readouterr().out


def other(**changes):
    """Returns the tensors of a network, some of them changed; None leaves one out."""
    return {name: value for name, value in (weights(network()) | changes).items() if value is not None}


OTHER_TENSORS = {
    "one missing": (other(**{"rho.bias": None}), "more tensors than 5 tensors"),
    "one more": (other(extra=torch.ones(1)), "weights for 6 names; got 7, differing in extra"),
    "another shape": (other(**{"rho.bias": torch.ones(2)}), r"rho.bias of shape \(1,\); got \(2,\) in torch.float32"),
    "transposed": (other(**{"rho.weight": torch.ones(3, 1)}), r"rho.weight of shape \(1, 3\); got \(3, 1\)"),
    "integers": (other(**{"rho.bias": torch.ones(1).long()}), r"got \(1,\) in torch.int64"),
    "complex numbers": (other(**{"rho.bias": torch.ones(1).cfloat()}), r"got \(1,\) in torch.complex64"),
    "a name that climbs": (other(**{"../rho.bias": torch.ones(1)}), r"differing in ../rho.bias"),
    "none": ({}, "GRU with more tensors than 0 tensors"),
}


@pytest.mark.parametrize("case", OTHER_TENSORS)
def test_weights_of_another_network(case, tmp_path):
    tensors, message = OTHER_TENSORS[case]
    path = write_model(tmp_path / "model", {"network": describe(network())}, tensors)
    with pytest.raises(SavedModelError, match=message):
        load(path)


def zipped(path, entries, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in entries:
            archive.writestr(name, content)


@pytest.mark.parametrize("extra", ["../../climbs", "/etc/absolute", "model.json/inner", "code.py", "..\\back"])
def test_a_zip_holds_two_files_and_nothing_else(extra, tmp_path):
    path = saved(tmp_path)
    entries = [(name, (path / name).read_bytes()) for name in (DESCRIPTION_FILE, TENSORS_FILE)]
    inside = tmp_path / "inside"
    inside.mkdir()
    zipped(inside / "model.zip", [*entries, (extra, b"1")])
    with pytest.raises(
        SavedModelError, match=r"a zip of model.json and model.safetensors.*; got .*Save the model again"
    ):
        load(inside / "model.zip")
    assert [entry.name for entry in inside.iterdir()] == ["model.zip"]
    zipped(inside / "model.zip", entries)
    assert load(inside / "model.zip")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_zips_that_are_none_or_otherwise(tmp_path):
    path = saved(tmp_path)
    entries = [(name, (path / name).read_bytes()) for name in (DESCRIPTION_FILE, TENSORS_FILE)]
    good, bad = tmp_path / "good.zip", tmp_path / "bad.zip"
    zipped(good, entries)
    content = good.read_bytes()

    def refused(message):
        with pytest.raises(SavedModelError, match=message):
            bounded(lambda: load(bad))

    for damaged in (b"", b"PK", content[:-30], content[: len(content) // 2], content.replace(b"hidden", b"broken")):
        bad.write_bytes(damaged)
        refused("a file that is not a model, or is damaged|expects a zip")
    zipped(bad, [*entries, entries[0]])
    refused("got 'model.json', 'model.json', 'model.safetensors'")
    zipped(bad, entries[:1])
    refused("got 'model.json'. Save")
    zipped(bad, [])
    refused("got nothing")
    bomb = [(DESCRIPTION_FILE, b"[" + b" " * 60_000_000), entries[1]]
    zipped(bad, bomb, zipfile.ZIP_DEFLATED)
    refused("stored and not compressed.*got model.json otherwise. Unpack it, and load the folder")
    sized = bytearray(content)  # the size in the directory, of what is stored
    at = content.rindex(b"PK\x01\x02")
    sized[at + 20 : at + 28] = struct.pack("<II", 2**31, 2**31)
    bad.write_bytes(bytes(sized))
    refused("got model.safetensors otherwise|damaged")


def test_what_is_no_folder_of_a_model(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no saved model at"):
        load(tmp_path / "nowhere")
    with pytest.raises(SavedModelError, match=r"expects model.json and model.safetensors; got no file model.json"):
        load(tmp_path)
    path = saved(tmp_path)
    (path / TENSORS_FILE).unlink()
    (path / TENSORS_FILE).symlink_to("/dev/zero")  # which never ends
    with pytest.raises(SavedModelError, match=r"got no file model.safetensors"):
        bounded(lambda: load(path))
    (path / DESCRIPTION_FILE).unlink()
    (path / DESCRIPTION_FILE).mkdir()
    with pytest.raises(SavedModelError, match=r"got no file model.json"):
        load(path)


def test_a_description_of_hundreds_of_megabytes_is_not_read(tmp_path):
    path = saved(tmp_path)
    with open(path / DESCRIPTION_FILE, "r+b") as file:
        file.truncate(2**38)
    with pytest.raises(SavedModelError, match=r"a description of at most 67108864 bytes; got 274877906944"):
        bounded(lambda: load(path))


def test_links_to_files_are_followed(tmp_path):
    """The Hugging Face Hub's cache has such links."""
    path, linked = saved(tmp_path), tmp_path / "linked"
    linked.mkdir()
    for name in (DESCRIPTION_FILE, TENSORS_FILE):
        (linked / name).symlink_to(path / name)
    assert describe(load(linked)) == describe(network())


def test_every_flipped_byte_is_an_error_or_another_number(tmp_path):
    """No other exception, whatever byte of the description is damaged."""
    net = JanossyNetwork(
        ColumnEmbedding([3], num_numbers=1),
        JanossyPooling(FeaturedMLP(2, 4, 4, features=TupleFeatures(2, 4, products=[3])), Tuples(2)),
        nn.Linear(4, 1),
    )
    path = saved(tmp_path, net)
    file = path / DESCRIPTION_FILE
    good = file.read_bytes()
    source = torch.Generator().manual_seed(0)
    refused = 0
    for place in torch.randint(len(good), (300,), generator=source).tolist():
        for byte in (b"9", b'"', b"-"):
            file.write_bytes(good[:place] + byte + good[place + 1 :])
            try:
                load(path)
            except SavedModelError:
                refused += 1
    assert refused > 300
    file.write_bytes(good)
    assert repr(load(path)) == repr(net)


def test_a_rebuilt_network_owns_its_weights():
    net = network()
    tensors = {name: tensor.clone() for name, tensor in weights(net).items()}
    rebuild(describe(net), tensors)
    product = JanossyNetwork(None, JanossyPooling(TupleProduct(2, 2, 3), Tuples(2)), None)
    assert repr(rebuild(describe(product), weights(product))) == repr(product)
