"""HubNetwork: huggingface_hub's mixin, on a local folder and on a Hub that is played."""

import json
import shutil

import pytest
import torch
from torch import nn

from janossy import JanossyNetwork, JanossyPooling, TupleMLP, Tuples
from janossy.saving import SavedModelError, describe, load
from tests.examples import D, distinct_sets

pytest.importorskip("huggingface_hub")

from janossy.saving import hub


def network() -> JanossyNetwork:
    torch.manual_seed(0)
    return JanossyNetwork(None, JanossyPooling(TupleMLP(2, D, 8), Tuples(2)), nn.Linear(8, 1)).eval()


def test_a_local_folder(tmp_path):
    net, sets, folder = network(), distinct_sets(), tmp_path / "model"
    hub.HubNetwork(net).save_pretrained(folder)
    names = sorted(entry.name for entry in folder.iterdir())
    assert names == ["README.md", "config.json", "model.json", "model.safetensors"]
    assert "library_name: janossy" in (folder / "README.md").read_text(encoding="utf-8")
    for again in (hub.HubNetwork.from_pretrained(folder).network, load(folder)):
        assert torch.equal(again(sets), net(sets)) and not again.training
    net.rho.bias.data += 1
    hub.HubNetwork(net).save_pretrained(folder)  # in the place of the first
    assert torch.equal(load(folder)(sets), net(sets))
    assert sorted(entry.name for entry in folder.iterdir()) == names


def test_what_is_pushed_is_what_is_fetched(tmp_path, monkeypatch):
    """The uploaded folder, served file by file as the Hub's cache does."""
    pushed, asked = tmp_path / "pushed", []

    class Api:
        def __init__(self, **_):
            pass

        def create_repo(self, repo_id, **_):
            return type("Url", (), {"repo_id": repo_id})

        def upload_folder(self, *, folder_path, **_):
            shutil.copytree(folder_path, pushed)
            return "url"

    def download(repo_id=None, filename=None, **options):
        asked.append((repo_id, filename, options["revision"]))
        return str(pushed / filename)

    monkeypatch.setattr("huggingface_hub.hub_mixin.HfApi", Api)
    monkeypatch.setattr("huggingface_hub.hub_mixin.hf_hub_download", download)
    monkeypatch.setattr(hub, "hf_hub_download", download)
    net = network()
    assert hub.HubNetwork(net).push_to_hub("me/model") == "url"
    again = hub.HubNetwork.from_pretrained("me/model", revision="v1").network
    assert describe(again) == describe(net) and torch.equal(again(distinct_sets()), net(distinct_sets()))
    files = ("config.json", "model.safetensors", "model.json")
    assert asked == [("me/model", name, "v1") for name in files]


def test_a_hostile_repository_gets_the_same_errors(tmp_path):
    folder = tmp_path / "model"
    hub.HubNetwork(network()).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({"network": "os.system", "library_name": "evil"}))
    assert hub.HubNetwork.from_pretrained(folder).network  # nothing of it is used
    (folder / "model.json").write_text("{}")
    with pytest.raises(SavedModelError, match=r"expects format 'janossy model'; got None"):
        hub.HubNetwork.from_pretrained(folder)


def test_what_is_no_network():
    with pytest.raises(TypeError, match="HubNetwork expects a JanossyNetwork; got Linear"):
        hub.HubNetwork(nn.Linear(2, 3))
