"""Saved files: what is written is read, and appears whole or not at all."""

import os
from math import inf, nan

import pytest
import torch
from torch import nn

from janossy import GRU, JanossyNetwork, JanossyPooling, Sampled
from janossy.files import atomic
from janossy.saving import load, model, read_model, save, weights, write_model
from janossy.saving.reading import DESCRIPTION as DESCRIPTION_FILE

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b.c": torch.tensor([True]), "empty": torch.zeros(0, 4)}
DESCRIPTION = {"columns": ["é", "\u2028", ""], "scores": {"auc": 0.5}, "nothing": None, "large": 10**30}


def network(num_layers: int = 1) -> JanossyNetwork:
    torch.manual_seed(0)
    return JanossyNetwork(None, JanossyPooling(GRU(2, 3, num_layers=num_layers), Sampled(1)), nn.Linear(3, 1))


@pytest.mark.parametrize("suffix", ["", ".zip"])
def test_what_is_written_is_read(suffix, tmp_path):
    path = write_model(str(tmp_path / "deep" / f"model{suffix}"), DESCRIPTION, TENSORS)
    model = read_model(path)
    assert model.description == DESCRIPTION and model.written_by["janossy"] and model.written_by["torch"]
    assert model.tensors.keys() == TENSORS.keys()
    for name, tensor in model.tensors.items():
        assert torch.equal(tensor, TENSORS[name]) and tensor.dtype == TENSORS[name].dtype
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_views_and_gradients_are_written_as_they_are(tmp_path):
    x = torch.arange(6.0).view(2, 3).requires_grad_()
    model = read_model(write_model(tmp_path / "model", {}, {"transposed": x.T, "row": x[1]}))
    assert torch.equal(model.tensors["transposed"], x.T) and torch.equal(model.tensors["row"], x[1])


@pytest.mark.parametrize(
    ("description", "tensors", "error", "message"),
    [
        ({"version": 2}, {}, ValueError, "leaves format, version, digests, written_by to janossy; got version"),
        ({"score": nan}, {}, ValueError, "expects JSON values, all finite; got others: .*not JSON compliant"),
        ({"score": inf}, {}, ValueError, "expects JSON values"),
        ({"code": print}, {}, TypeError, "expects JSON values.*not JSON serializable"),
        ({"text": "\ud800"}, {}, ValueError, "expects JSON values.*surrogates"),
        ({}, {"a": 3}, TypeError, "expects tensors; got a, of type int"),
        ({}, dict.fromkeys("ab", torch.ones(2)), ValueError, "share no memory; got a and b, which do.*clone one"),
    ],
)
def test_what_cannot_be_written(description, tensors, error, message, tmp_path):
    with pytest.raises(error, match=message):
        write_model(tmp_path / "model", description, tensors)
    assert not list(tmp_path.iterdir())


# Whole or not at all.


@pytest.mark.parametrize("suffix", ["", ".zip"])
def test_nothing_is_replaced_unasked(suffix, tmp_path):
    path = tmp_path / f"model{suffix}"
    save(network(), path)
    with pytest.raises(FileExistsError, match=r"exists. Give another path, or overwrite=True to replace"):
        save(network(2), path)
    assert len(weights(load(path))) == 6
    save(network(2), path, overwrite=True)
    assert len(weights(load(path))) == 10 and [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_only_a_saved_model_is_ever_replaced(tmp_path):
    """Or overwrite=True would be a way to lose a home."""
    home, text, empty, other = tmp_path / "home", tmp_path / "text.zip", tmp_path / "empty", tmp_path / "other"
    home.mkdir(), empty.mkdir(), other.mkdir()
    (home / "thesis.txt").write_text("all of it")
    text.write_text("no zip")
    (other / DESCRIPTION_FILE).write_text('{"format": "of others"}')
    for path in (home, text, empty, other):
        with pytest.raises(FileExistsError, match="is not a saved model; overwrite=True replaces only saved models"):
            save(network(), path, overwrite=True)
    assert (home / "thesis.txt").read_text() == "all of it" and text.read_text() == "no zip"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["empty", "home", "other", "text.zip"]


@pytest.mark.skipif(os.name == "nt", reason="Windows may forbid links")
@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("suffix", ["", ".zip"])
def test_of_a_link_the_link_is_replaced_and_not_what_it_names(suffix, exchanges, tmp_path, monkeypatch):
    first, link = tmp_path / f"first{suffix}", tmp_path / f"newest{suffix}"
    save(network(), first)
    link.symlink_to(first)
    if not exchanges:
        monkeypatch.setattr(atomic, "exchange_names", lambda one, other: False)
    save(network(2), link, overwrite=True)
    assert not link.is_symlink() and len(weights(load(link))) == 10 and len(weights(load(first))) == 6
    assert sorted(tmp_path.iterdir()) == [first, link]


@pytest.mark.parametrize("suffix", ["", ".zip"])
@pytest.mark.parametrize("there", [False, True])
def test_a_full_disk_leaves_what_was_there(suffix, there, tmp_path, monkeypatch):
    path = tmp_path / f"model{suffix}"
    if there:
        save(network(), path)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(model.Path, "write_bytes", full)
        patched.setattr(model.ZipFile, "writestr", full)
        with pytest.raises(OSError, match="No space left"):
            save(network(2), path, overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ([path.name] if there else [])
    if there:
        assert len(weights(load(path))) == 6


def test_a_failing_rename_puts_the_old_model_back(tmp_path, monkeypatch):
    path, rename = tmp_path / "model", model.Path.rename
    save(network(), path)

    def fails_to_place(self, target):
        if target == path and not self.name.endswith(".part-old") and "old" not in renamed:
            renamed.append("old")
            raise OSError("no")
        return rename(self, target)

    renamed = []
    monkeypatch.setattr(model.Path, "rename", fails_to_place)
    monkeypatch.setattr(atomic, "exchange_names", lambda one, other: False)  # as on a system that exchanges no names
    with pytest.raises(OSError, match="no"):
        save(network(2), path, overwrite=True)
    assert len(weights(load(path))) == 6 and [entry.name for entry in tmp_path.iterdir()] == ["model"]
