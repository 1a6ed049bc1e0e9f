"""HubNetwork: a saved network on the Hugging Face Hub (needs the extra ``hub``)."""

from pathlib import Path
from typing import Any, Self

try:
    from huggingface_hub import ModelHubMixin, hf_hub_download
except ImportError as error:
    raise ImportError("janossy.saving.hub needs huggingface_hub: pip install 'janossy[hub]'.") from error

from janossy.nn.network import JanossyNetwork, check_network
from janossy.saving.network import load, save
from janossy.saving.reading import DESCRIPTION, TENSORS

CARD: dict[str, Any] = {"library_name": "janossy", "tags": ["janossy-pooling", "sets"]}
"""The contents of the model's card."""


class HubNetwork(ModelHubMixin, **CARD):
    """A network with huggingface_hub's ``push_to_hub``, ``save_pretrained`` and ``from_pretrained``, as ``.network``.

    The repository, or folder, holds the files of ``save`` and a model card. They may come from an untrusted source: see
    ``load``.

    Shapes: none.

    Example:
        >>> network = JanossyNetwork(None, JanossyPooling(TupleMLP(2, 3, 8), Tuples(2)), None)
        >>> folder = tempfile.mkdtemp()
        >>> HubNetwork(network).save_pretrained(folder)  # or .push_to_hub("name/of-model")
        >>> HubNetwork.from_pretrained(folder).network.pooling.orderings
        Tuples(k=2, max_rows=10000000)
    """

    def __init__(self, network: JanossyNetwork) -> None:
        check_network(network, "HubNetwork")
        self.network = network
        self._hub_mixin_config = {"library_name": "janossy"}  # the Hub counts downloads of config.json

    def _save_pretrained(self, save_directory: Path) -> None:
        whole = save(self.network, save_directory / ".janossy")
        for name in (DESCRIPTION, TENSORS):
            (whole / name).replace(save_directory / name)
        whole.rmdir()

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **options: Any) -> Self:
        folder = Path(model_id)
        if not folder.is_dir():
            known = ("revision", "cache_dir", "force_download", "local_files_only", "token")
            asked = {name: options[name] for name in known}
            hf_hub_download(model_id, TENSORS, **asked)
            folder = Path(hf_hub_download(model_id, DESCRIPTION, **asked)).parent
        return cls(load(folder))
