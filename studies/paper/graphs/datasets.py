"""The graphs of Section 4.2 with their splits: Cora, PubMed, PPI, and PPI-GO, which has other labels."""

import errno
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from janossy.graph.neighbourhoods import Neighbourhoods
from studies.paper.graphs.settings import NAMES

FOLDERS = {"cora": "planetoid/Cora", "pubmed": "planetoid/PubMed", "ppi": "ppi", "ppi-go": "ppi"}
"""The folder of each data set below that of the data, in torch_geometric's layout or ours."""

GRAPHS, BY_GENE = "ppi.npz", "labels_by_gene.npz"
"""The file of PPI's graphs and features with PPI-GO's labels, and that of PPI's labels by gene."""

SIZES = {"cora": (2708, 1433, 7), "pubmed": (19717, 500, 3), "ppi": (56944, 50, 121), "ppi-go": (56944, 50, 121)}
"""Vertices, features and classes (Table 9)."""

EDGES = {"cora": 10556, "pubmed": 88648, "ppi": 1587264, "ppi-go": 1587264}
"""The number of directed edges, without loops. Of PPI's, 1226368 are in training graphs, as torch_geometric says."""

DIGESTS = {
    "cora": "cc1b8c55366cf531e612d8d18cab808470063186217846fb99741e172510cb18",
    "pubmed": "55e211286fbce9faed6e0244920fe4dc5ffd15d36581ed519d76d53b7e1da43d",
    "ppi-go": "377808e2ba6342701129d35626cc8ccb430086f63301b89412f4aefd3b1f71d2",
}
"""SHA-256 of the contents, by ``digest_of``."""

PPI_LABELS = "677cc50459190ba22afc0762356e573ca56e422c80fd36204669a81694afa78d"
"""SHA-256 of PPI's published labels, as bytes of 0 and 1, one row per vertex."""

SPLIT = (1000, 500)
"""The test and validation vertices of Cora and PubMed. The others are for training (Table 9)."""

OTHER_LABELS = (
    "PPI-GO has PPI's graphs and features, but other labels: the 121 largest Gene Ontology sets of MSigDB C5 v6.1. "
    "Its numbers cannot be compared with the paper's."
)


@dataclass(frozen=True)
class _Files:
    """The contents of a data set's files: edges (2, E), and the ends of training and validation vertices if fixed."""

    x: Tensor
    y: Tensor
    edges: Tensor
    ends: list[int] | None = None
    parts: Tensor | None = None


@dataclass(frozen=True)
class VertexData:
    """A graph whose vertices have features and labels.

    Shapes: x (V, d), sparse if mostly 0. y (V,), the class, or (V, c) of 0 and 1 for any number of labels
        (``multilabel``). train, validation, test: vertices. parts (V,), the graph of each vertex if there are several.
    """

    name: str
    x: Tensor
    y: Tensor
    graph: Neighbourhoods
    train: Tensor
    validation: Tensor
    test: Tensor
    parts: Tensor | None = None

    @property
    def multilabel(self) -> bool:
        return self.y.dim() == 2

    @property
    def num_classes(self) -> int:
        return SIZES[self.name][2]


def load(name: str, folder: Path, seed: int = 0) -> VertexData:
    """Reads a data set, with the seed's random split for Cora and PubMed. PPI is split by graph, as published.

    If the folder has labels_by_gene.npz, PPI is read from it and ppi.npz. Otherwise torch_geometric reads PPI, as it
    reads Cora and PubMed. It downloads missing files, and writes its own beside them. In both cases the labels must be
    the published ones.

    Loops are dropped, because each layer reads the vertex itself anyway. PPI's features are standardised on the
    training vertices.

    Raises: ValueError if files are damaged, incomplete, or those of another data set. OSError if they are missing and
        cannot be downloaded, or the folder cannot be written. ImportError without torch_geometric.
    """
    root = folder / FOLDERS[name]
    if name == "ppi-go" and not (root / GRAPHS).is_file():
        raise FileNotFoundError(f"PPI-GO expects the file {root / GRAPHS}, which is not there. {OTHER_LABELS}")
    if name == "ppi" and _is_by_gene(root) and not (root / GRAPHS).is_file():
        raise FileNotFoundError(
            f"PPI expects {GRAPHS}, which has the graphs, beside {root / BY_GENE}; it is not there. Copy it there, or "
            f"remove {BY_GENE}, and torch_geometric fetches PPI."
        )
    try:
        files = read_files(name, root)
    except Exception as error:
        # A damaged pickle may name modules that do not exist.
        if isinstance(error, ImportError) and (error.name or "").startswith("torch_geometric"):
            raise ImportError("The graph data sets need torch_geometric: pip install janossy[graph]") from error
        raise _explained(error, name, root) from error
    x, y = files.x, files.y
    graph = Neighbourhoods.from_edge_index(files.edges, len(x))
    if files.ends is None:
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        test, validation, train = order.split([*SPLIT, len(x) - sum(SPLIT)])
        return VertexData(name, x.to_sparse(), y, graph, train, validation, test)
    train, validation, test = torch.arange(len(x)).tensor_split(files.ends)
    mean, std = x[train].mean(0), x[train].std(0, correction=0)
    return VertexData(name, (x - mean) / std.clamp_min(1e-6), y, graph, train, validation, test, files.parts)


@lru_cache(maxsize=2)  # data sets come one after the other, with many trials each; PPI reads PPI-GO's graphs
def read_files(name: str, root: Path) -> _Files:
    """Reads the files, without loops. Raises: the errors of the reader; ValueError if it is not the data set."""
    files = _READERS[name](root)
    sources, targets = files.edges
    files = replace(files, edges=files.edges[:, sources != targets])
    classes = files.y.shape[1] if files.y.dim() == 2 else int(files.y.max()) + 1
    got = f"{len(files.x)} vertices, {files.x.shape[1]} features, {classes} classes and {files.edges.shape[1]} edges"
    expected = "{} vertices, {} features, {} classes and {} edges".format(*SIZES[name], EDGES[name])
    if got != expected:
        raise ValueError(f"expected {expected}, got {got}")
    if not files.x.isfinite().all() or (files.y.dim() == 2 and not ((files.y == 0) | (files.y == 1)).all()):
        raise ValueError("expected finite features, and labels of 0 and 1")
    if name == "ppi":
        _check_ppi_labels(files.y)
    elif digest_of(files) != DIGESTS[name]:
        raise ValueError("the sizes are right, but the content is not")
    return files


def _check_ppi_labels(y: Tensor) -> None:
    """Raises a ValueError unless these are PPI's published labels, row by row."""
    got = sha256(y.to(torch.uint8).numpy().tobytes()).hexdigest()
    if got != PPI_LABELS:
        raise ValueError(f"the labels are another matrix: expected the SHA-256 {PPI_LABELS}, got {got}")


def digest_of(files: _Files) -> str:
    """Returns the digest of features, labels, edges in any order, and the split."""
    sources, targets = files.edges
    parts = [files.x, files.y.float(), (sources * len(files.x) + targets).sort().values]
    parts += [] if files.parts is None else [files.parts, torch.tensor(files.ends)]
    digest = sha256()
    for part in parts:
        digest.update(part.contiguous().numpy())
    return digest.hexdigest()


_NOT_DAMAGE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC}


def _is_by_gene(root: Path) -> bool:
    return (root / BY_GENE).exists()


def _explained(error: Exception, name: str, root: Path) -> Exception:
    """Returns an error with the remedy."""
    reason = f"({type(error).__name__}: {error})"
    if isinstance(error, OSError) and error.errno in _NOT_DAMAGE:
        return OSError(
            f"{NAMES[name]} in {root} could not be read, or what torch_geometric makes of it not be written beside it "
            f"{reason}. Give the folder of a copy that can be written."
        )
    if name == "ppi-go":
        return ValueError(f"{root / GRAPHS} is damaged or incomplete {reason}; replace it.")
    if name == "ppi" and _is_by_gene(root):
        return ValueError(f"{GRAPHS} or {BY_GENE} in {root} is damaged or incomplete {reason}; replace it.")
    if any((root / "raw").glob("*")) or (root / "ppi.zip").exists():
        everything = "raw and ppi.zip" if name == "ppi" else "raw"
        return ValueError(
            f"The files of {NAMES[name]} in {root} are damaged or incomplete {reason}; remove the folder processed "
            f"there, which the next run makes again, and if that is not enough {everything}, which it fetches again."
        )
    remedy = f"Copy its raw files into {root / 'raw'}, or give the folder that has {FOLDERS[name]}/raw."
    if name == "ppi":
        remedy += f" It is also read from {GRAPHS} and {BY_GENE} in {root}."
    return OSError(f"{NAMES[name]} is not in {root} and could not be fetched {reason}. {remedy}")


RAW_DIGESTS = {
    "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
    "ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
    "ind.pubmed.allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    "ind.pubmed.ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
    "ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "ind.pubmed.test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    "ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "ind.pubmed.ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
    "ind.pubmed.x": "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
    "ind.pubmed.y": "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
}
"""The digests of the published files of Cora and PubMed (Yang, Cohen and Salakhutdinov, 2016)."""


def _planetoid(root: Path) -> _Files:
    from torch_geometric.datasets import Planetoid  # noqa: PLC0415

    class Checked(Planetoid):
        def process(self) -> None:
            for path in map(Path, self.raw_paths):  # they are pickles, which may hold code
                if (found := sha256(path.read_bytes()).hexdigest()) != RAW_DIGESTS[path.name]:
                    raise ValueError(f"{path} expects the SHA-256 {RAW_DIGESTS[path.name]}; got {found}")
            super().process()

    data = Checked(str(root.parent), root.name)[0]
    return _Files(data.x, data.y, data.edge_index)


def _ppi(root: Path) -> _Files:
    return _by_gene(root) if _is_by_gene(root) else _of_torch_geometric(root)


def _of_torch_geometric(root: Path) -> _Files:
    from torch_geometric.data import Batch  # noqa: PLC0415
    from torch_geometric.datasets import PPI  # noqa: PLC0415

    splits = [list(PPI(str(root), split)) for split in ("train", "val", "test")]
    whole = Batch.from_data_list([graph for graphs in splits for graph in graphs])
    sizes = [sum(graph.num_nodes for graph in graphs) for graphs in splits]
    return _Files(whole.x, whole.y, whole.edge_index, [sizes[0], sizes[0] + sizes[1]], whole.batch)


def _by_gene(root: Path) -> _Files:
    """Reads PPI's graphs from ppi.npz, which is checked like PPI-GO's, and each vertex's labels by its gene."""
    files = read_files("ppi-go", root)
    with np.load(root / GRAPHS) as file:
        wanted = file["genes"]
    with np.load(root / BY_GENE) as file:
        genes, packed = file["genes"], file["gene_labels"]
    places = np.searchsorted(genes, wanted).clip(max=len(genes) - 1)
    if not np.array_equal(genes[places], wanted):
        num = len(np.unique(wanted[genes[places] != wanted]))
        raise ValueError(f"expected labels of every gene in {GRAPHS}, in the order of the genes; {num} are missing")
    labels = np.unpackbits(packed, axis=1, count=SIZES["ppi"][2])[places]
    return replace(files, y=torch.from_numpy(labels.astype(np.float32)))


def read_ppi_go(root: Path) -> _Files:
    """Reads ppi.npz, with loops. The edges are sorted."""
    with np.load(root / GRAPHS) as file:
        features, labels = (
            torch.from_numpy(np.unpackbits(file[key], axis=1)[:, :width].astype(np.float32))
            for key, width in (("features", 50), ("go_labels", 121))
        )
        pairs = torch.from_numpy(file["edges"].astype(np.int64))
        ends, parts = file["split_ends"].tolist(), torch.from_numpy(file["graph"].astype(np.int64))
    # As one number per edge, because unique(dim=0) takes seconds.
    numbers = (torch.cat((pairs, pairs.flip(1))) @ torch.tensor([len(features), 1])).unique()
    edges = torch.stack((numbers // len(features), numbers % len(features)))
    return _Files(features, labels, edges, ends[:2], parts)


_READERS: dict[str, Callable[[Path], _Files]] = {
    "cora": _planetoid,
    "pubmed": _planetoid,
    "ppi": _ppi,
    "ppi-go": read_ppi_go,
}
