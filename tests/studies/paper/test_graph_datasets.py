"""The graph data sets: what is in them, and that damage to their files is found."""

import json
import os
import pickle
import resource
import shutil
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from studies.paper.graphs import datasets
from studies.paper.graphs.datasets import BY_GENE, FOLDERS, GRAPHS, NAMES, SIZES, VertexData, load
from studies.paper.graphs.summary import FEW_NEIGHBOURS, SMALL
from studies.paper.graphs.trial import NUM_TRAIN
from tests.studies.paper.graph_files import copied, unplug

TABLES = json.loads((resources.files("studies.paper") / "tables.json").read_text(encoding="utf-8"))
TABLE_9 = TABLES["table_9_graph_datasets"] | {"ppi-go": TABLES["table_9_graph_datasets"]["ppi"]}


@pytest.fixture(autouse=True)
def _unplugged(monkeypatch):
    unplug(monkeypatch)
    datasets.read_files.cache_clear()


def same(a: VertexData, b: VertexData) -> bool:
    pairs = [(a.x, b.x), (a.y, b.y), (a.train, b.train), (a.validation, b.validation), (a.test, b.test)]
    pairs += [(a.graph.offsets, b.graph.offsets), (a.graph.neighbours, b.graph.neighbours)]
    return all(torch.equal(s.to_dense(), t.to_dense()) for s, t in pairs)


def neighbour_sets(data: VertexData, vertices) -> list[set[int]]:
    return [set(v.tolist()) for v in data.graph.whole(torch.as_tensor(vertices)).to_sets()]


# The data sets


@pytest.mark.parametrize("name", NAMES)
def test_sizes_are_table_9(name, tmp_path):
    data, printed = load(name, copied(name, tmp_path)), TABLE_9[name]
    assert data.x.shape == (printed["vertices"], printed["features"]) and len(data.y) == printed["vertices"]
    assert data.num_classes == printed["classes"] and data.multilabel == printed["multilabel"]
    assert (len(data.train), len(data.test)) == (printed["training_vertices"], printed["test_vertices"])
    ends, loops = len(data.graph.neighbours), 0
    if name.startswith("ppi"):
        pairs = np.load(tmp_path / "ppi" / "ppi.npz")["edges"]
        loops = int((pairs[:, 0] == pairs[:, 1]).sum())
    decimals = len(str(printed["average_degree"]).partition(".")[2])
    assert round((ends + 2 * loops) / len(data.x), decimals) == printed["average_degree"]  # the paper counts loops
    owners = torch.arange(len(data.x)).repeat_interleave(data.graph.degrees)
    assert not (owners == data.graph.neighbours).any()
    assert (data.graph.degrees <= FEW_NEIGHBOURS).double().mean().item() == pytest.approx(SMALL[name], abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_progress_is_counted_by_table_9(name):
    assert NUM_TRAIN[name] == TABLE_9[name]["training_vertices"]
    assert SIZES[name] == tuple(TABLE_9[name][key] for key in ("vertices", "features", "classes"))


@pytest.mark.parametrize("name", ["cora", "pubmed"])
def test_citation_graphs_are_their_raw_files(name, tmp_path):
    """Also the vertices of tx and ty, which test.index puts in their places."""
    data = load(name, copied(name, tmp_path))
    raw = {}
    for part in ("allx", "tx", "ally", "ty", "graph"):
        with (tmp_path / FOLDERS[name] / "raw" / f"ind.{name}.{part}").open("rb") as file:
            raw[part] = pickle.load(file, encoding="latin1")
    places = np.loadtxt(tmp_path / FOLDERS[name] / "raw" / f"ind.{name}.test.index", dtype=int)
    x = np.zeros(data.x.shape, dtype=np.float32)
    y = np.zeros(len(x), dtype=int)
    x[: raw["allx"].shape[0]], y[: len(raw["ally"])] = raw["allx"].toarray(), raw["ally"].argmax(1)
    x[places], y[places] = raw["tx"].toarray(), raw["ty"].argmax(1)
    assert np.array_equal(data.x.to_dense().numpy(), x) and np.array_equal(data.y.numpy(), y)
    expected = [set() for _ in x]
    for source, targets in raw["graph"].items():
        for target in set(targets) - {source}:
            expected[target].add(source)
    assert neighbour_sets(data, range(len(x))) == expected
    assert data.graph.degrees.tolist() == [len(v) for v in expected]


@pytest.mark.parametrize("name", ["cora", "pubmed"])
def test_splits_are_disjoint_cover_all_and_are_a_function_of_the_seed(name, tmp_path):
    copied(name, tmp_path)
    first, again, other = (load(name, tmp_path, seed) for seed in (0, 0, 1))
    for data in (first, other):
        assert torch.cat((data.train, data.validation, data.test)).sort().values.equal(torch.arange(len(data.x)))
    assert same(first, again)
    assert not first.test.equal(other.test) and not first.train.sort().values.equal(other.train.sort().values)


def test_ppi_go_is_its_file_split_by_graph(tmp_path):
    data = load("ppi-go", copied("ppi-go", tmp_path))
    splits = (data.train, data.validation, data.test)
    assert torch.cat(splits).equal(torch.arange(len(data.x)))
    assert [len(data.parts[vertices].unique()) for vertices in splits] == [20, 2, 2]
    assert len(data.parts.unique()) == 24
    assert data.parts.repeat_interleave(data.graph.degrees).equal(data.parts[data.graph.neighbours])
    trained = data.x[data.train]
    constant = (trained == trained[0]).all(0)
    torch.testing.assert_close(trained.mean(0), torch.zeros(50), atol=1e-4, rtol=0)
    torch.testing.assert_close(trained.std(0, correction=0)[~constant], torch.ones(50)[~constant], atol=1e-4, rtol=0)
    assert constant.sum() == 1 and not data.x[:, constant].any() and data.x.abs().max() < 100
    file = np.load(tmp_path / "ppi" / "ppi.npz")
    binary = np.unpackbits(file["features"], axis=1)[:, :50]
    assert np.array_equal((data.x[:, ~constant] > 0).numpy(), binary[:, ~constant.numpy()] > 0)
    assert np.array_equal(data.y.numpy(), np.unpackbits(file["go_labels"], axis=1)[:, :121])
    pairs = file["edges"].astype(int)
    for vertex in (0, 1, 17_000, 44_905, 44_906, 56_943):
        ends = pairs[(pairs == vertex).any(1)]
        assert neighbour_sets(data, [vertex]) == [set(ends.flatten().tolist()) - {vertex}]


@pytest.fixture
def small_ppi(tmp_path, monkeypatch):
    return write_ppi(tmp_path, monkeypatch, 0)


def write_ppi(folder, monkeypatch, seed):
    """Writes small files like PPI's, and returns the folder and the contents. Vertices of all splits share a numbering.

    As in PPI, the first vertex of each graph has an edge: torch_geometric counts from the first that has.
    """
    random = np.random.default_rng(seed)
    raw = folder / FOLDERS["ppi"] / "raw"
    raw.mkdir(parents=True)
    written = {"x": [], "y": [], "parts": [], "edges": set(), "ends": []}
    total = 0
    for split, sizes in (("train", (6, 4, 9)), ("valid", (5,)), ("test", (3, 7))):
        num, start, links = sum(sizes), 0, []
        for size in sizes:
            pairs = random.integers(0, size, (2 * size, 2)).tolist()  # loops and repeated links among them
            for a, b in [(0, 1), (1, 1), (0, 1), *pairs]:
                links.append({"source": start + a, "target": start + b})
                if a != b:
                    written["edges"] |= {(total + start + a, total + start + b), (total + start + b, total + start + a)}
            start += size
        x, y = random.normal(2, 3, (num, 4)), random.integers(0, 2, (num, 3))
        ids = np.repeat(np.arange(len(sizes)), sizes)
        nodes = [{"id": i, "label": y[i].tolist(), "feature": x[i].tolist()} for i in range(num)]
        graph = {"directed": False, "multigraph": False, "graph": {}, "nodes": nodes, "links": links}
        (raw / f"{split}_graph.json").write_text(json.dumps(graph))
        np.save(raw / f"{split}_feats.npy", x)
        np.save(raw / f"{split}_labels.npy", y)
        np.save(raw / f"{split}_graph_id.npy", ids + 1 + len(np.unique(written["parts"])))
        written["x"].append(x)
        written["y"].append(y)
        written["parts"] += (ids + len(np.unique(written["parts"]))).tolist()
        total += num
        written["ends"].append(total)
    written["x"], written["y"] = np.concatenate(written["x"]), np.concatenate(written["y"])
    monkeypatch.setitem(datasets.SIZES, "ppi", (total, 4, 3))
    monkeypatch.setitem(datasets.EDGES, "ppi", len(written["edges"]))
    monkeypatch.setattr(datasets, "PPI_LABELS", digest_of(written["y"]))
    return folder, written


def digest_of(y) -> str:
    return sha256(y.astype(np.uint8).tobytes()).hexdigest()


@pytest.mark.parametrize("seed", range(3))
def test_ppi_is_its_raw_files(seed, tmp_path, monkeypatch):
    folder, written = write_ppi(tmp_path, monkeypatch, seed)
    first, second, third = written["ends"]
    for _ in range(2):  # from the raw files, then from what torch_geometric made of them
        datasets.read_files.cache_clear()
        data = load("ppi", folder)
        trained = written["x"][:first]
        standardised = (written["x"] - trained.mean(0)) / trained.std(0)
        np.testing.assert_allclose(data.x.numpy(), standardised, atol=1e-5)
        assert np.array_equal(data.y.numpy(), written["y"]) and data.multilabel
        assert data.parts.tolist() == written["parts"]
        owners = torch.arange(third).repeat_interleave(data.graph.degrees)
        pairs = list(zip(data.graph.neighbours.tolist(), owners.tolist(), strict=True))
        assert len(pairs) == len(set(pairs)) and set(pairs) == written["edges"]
        expected = torch.arange(first), torch.arange(first, second), torch.arange(second, third)
        assert all(a.equal(b) for a, b in zip((data.train, data.validation, data.test), expected, strict=True))


# PPI by gene


def write_by_gene(folder, monkeypatch, seed=0):
    """Writes small files in the layout of ppi.npz and labels_by_gene.npz; returns the labels of each vertex."""
    random = np.random.default_rng(seed)
    ends, parts = [9, 14, 20], np.repeat(np.arange(4, dtype=np.uint8), [4, 5, 5, 6])
    starts = np.searchsorted(parts, parts)
    edges = {(int(starts[v]), v) for v in range(20)} | {(2, 3), (5, 8), (15, 19)}  # loops among them
    genes = random.choice(np.arange(100, 130, 2), 20)
    known = np.unique(np.r_[genes, 7, 201]).astype(np.int32)
    of_gene = random.integers(0, 2, (len(known), 121), dtype=np.uint8)
    root = folder / FOLDERS["ppi"]
    root.mkdir(parents=True)
    np.savez(
        root / GRAPHS,
        edges=np.array(sorted(edges), np.uint16),
        graph=parts,
        features=np.packbits(random.integers(0, 2, (20, 50), dtype=np.uint8), axis=1),
        go_labels=np.packbits(random.integers(0, 2, (20, 121), dtype=np.uint8), axis=1),
        genes=genes.astype(np.int32),
        split_ends=np.array(ends),
    )
    go_ids = np.array([f"GO:{i:07}" for i in range(121)])
    np.savez(root / BY_GENE, genes=known, gene_labels=np.packbits(of_gene, axis=1), go_ids=go_ids)
    for name in ("ppi", "ppi-go"):
        monkeypatch.setitem(datasets.SIZES, name, (20, 50, 121))
        monkeypatch.setitem(datasets.EDGES, name, 2 * sum(a != b for a, b in edges))
    go = datasets.read_ppi_go(root)
    monkeypatch.setitem(
        datasets.DIGESTS, "ppi-go", datasets.digest_of(replace(go, edges=go.edges[:, go.edges[0] != go.edges[1]]))
    )
    y = np.stack([of_gene[known.tolist().index(gene)] for gene in genes])
    monkeypatch.setattr(datasets, "PPI_LABELS", digest_of(y))
    return y


@pytest.mark.parametrize("seed", range(3))
def test_by_gene_ppi_has_ppi_gos_graphs_and_its_genes_labels(seed, tmp_path, monkeypatch):
    y = write_by_gene(tmp_path, monkeypatch, seed)
    data, other = load("ppi", tmp_path), load("ppi-go", tmp_path)
    assert data.name == "ppi" and data.multilabel and np.array_equal(data.y.numpy(), y)
    assert data.y.dtype == other.y.dtype == torch.float32 and not data.y.equal(other.y)
    assert same(replace(data, y=other.y), other) and data.parts.equal(other.parts)


def test_the_published_labels_are_read_and_no_others(tmp_path):
    data = load("ppi", copied("ppi", tmp_path))
    assert digest_of(data.y.numpy()) == "677cc50459190ba22afc0762356e573ca56e422c80fd36204669a81694afa78d"
    rates = [round(data.y[vertices].mean().item(), 3) for vertices in (data.train, data.validation, data.test)]
    assert int(data.y.sum()) == 2_102_769 and rates == [0.307, 0.295, 0.299]


def changed(path, **arrays) -> None:
    whole = dict(np.load(path))
    np.savez(path, **{key: value for key, value in (whole | arrays).items() if value is not None})


def another_label(root):
    labels = np.load(root / BY_GENE)["gene_labels"]
    labels[3, 5] ^= 16
    changed(root / BY_GENE, gene_labels=labels)


def a_gene_less(root):
    with np.load(root / BY_GENE) as file:
        absent = file["genes"] != np.load(root / GRAPHS)["genes"][0]
        genes, labels = file["genes"][absent], file["gene_labels"][absent]
    changed(root / BY_GENE, genes=genes, gene_labels=labels)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (another_label, "the labels are another matrix: expected the SHA-256"),
        (a_gene_less, "1 are missing"),
        (lambda root: changed(root / BY_GENE, genes=np.load(root / BY_GENE)["genes"][::-1]), "are missing"),
        (lambda root: changed(root / BY_GENE, genes=np.zeros(0, np.int32)), "IndexError"),
        (lambda root: changed(root / BY_GENE, gene_labels=np.load(root / BY_GENE)["gene_labels"][:, :8]), "another"),
        (lambda root: changed(root / BY_GENE, gene_labels=None), "gene_labels"),
        (lambda root: changed(root / GRAPHS, graph=np.load(root / GRAPHS)["graph"][::-1]), "the content is not"),
        (lambda root: damage(root / BY_GENE, "truncated", 0.6), "BadZipFile"),
        (lambda root: damage(root / GRAPHS, "garbage", 0), "Error"),
        (lambda root: damage(root / BY_GENE, "empty", 0), "EOFError"),
    ],
)
def test_by_gene_another_file_is_refused(change, words, tmp_path, monkeypatch):
    write_by_gene(tmp_path, monkeypatch)
    change(tmp_path / FOLDERS["ppi"])
    datasets.read_files.cache_clear()
    with pytest.raises(ValueError, match=words) as refused:
        load("ppi", tmp_path)
    line = str(refused.value)
    assert line.startswith(f"{GRAPHS} or {BY_GENE} in {tmp_path / FOLDERS['ppi']} is damaged or incomplete")
    assert line.endswith("replace it.")


def test_labels_by_gene_want_the_graphs_beside_them(tmp_path, monkeypatch):
    write_by_gene(tmp_path, monkeypatch)
    (tmp_path / FOLDERS["ppi"] / GRAPHS).unlink()
    with pytest.raises(FileNotFoundError, match=r"PPI expects ppi\.npz, which has the graphs, beside"):
        load("ppi", tmp_path)


def test_torch_geometrics_labels_are_checked_too(small_ppi, monkeypatch):
    monkeypatch.setattr(datasets, "PPI_LABELS", "0" * 64)
    assert "the labels are another matrix" in refusal("ppi", small_ppi[0])


# Damage


def damage(path, kind, at: float) -> None:
    content = path.read_bytes()
    place = min(int(at * len(content)), len(content) - 1)
    if kind == "gone":
        path.unlink()
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "truncated":
        path.write_bytes(content[:place])
    elif kind == "garbage":
        path.write_bytes(np.random.default_rng(place).bytes(len(content)))
    else:
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x5A]) + content[place + 1 :])


def refusal(name, folder) -> str:
    """Returns the one line in which the data set is refused, which says what, where, and how to have it again."""
    datasets.read_files.cache_clear()
    with pytest.raises(ValueError) as refused:
        load(name, folder)
    line = str(refused.value)
    where = folder / FOLDERS[name]
    assert type(refused.value) is ValueError and "damaged or incomplete" in line
    if name == "ppi-go":
        assert line.startswith(f"{where / 'ppi.npz'} is damaged") and line.endswith("; replace it.")
    else:
        assert line.startswith(f"The files of {NAMES[name]} in {where} are damaged")
        assert line.endswith("fetches again.") and "remove the folder processed there" in line
    return line


def is_refused_or_intact(name, folder, intact) -> None:
    datasets.read_files.cache_clear()
    try:
        data = load(name, folder)
    except ValueError:
        refusal(name, folder)
    else:
        assert same(data, intact)


@pytest.fixture(scope="module")
def ppi_go(tmp_path_factory):
    folder = copied("ppi-go", tmp_path_factory.mktemp("ppi-go"))
    return folder, load("ppi-go", folder)


CORA_RAW = [f"ind.cora.{part}" for part in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")]


@pytest.mark.parametrize(
    ("part", "kind", "at"),
    [
        *((part, "gone", 0) for part in CORA_RAW),
        ("ind.cora.graph", "empty", 0),
        ("ind.cora.allx", "truncated", 0.9),
        ("ind.cora.ty", "garbage", 0),
        ("ind.cora.tx", "flipped", 0.9),  # one feature's index
        ("ind.cora.ally", "flipped", 0.5),
        ("ind.cora.test.index", "empty", 0),
        ("ind.cora.test.index", "truncated", 0.999),  # the last line but its end, which is not read then
        ("ind.cora.test.index", "truncated", 0.5),
    ],
)
def test_damaged_cora_is_refused(part, kind, at, tmp_path):
    copied("cora", tmp_path)
    damage(tmp_path / FOLDERS["cora"] / "raw" / part, kind, at)
    refusal("cora", tmp_path)


class Code:
    """An object whose pickle makes a folder."""

    def __init__(self, made):
        self.made = made

    def __reduce__(self):
        return os.mkdir, (str(self.made),)


@pytest.mark.parametrize("part", ["ind.cora.x", "ind.cora.graph"])
def test_code_in_a_raw_file_is_not_run(part, tmp_path):
    copied("cora", tmp_path)
    (tmp_path / FOLDERS["cora"] / "raw" / part).write_bytes(pickle.dumps(Code(tmp_path / "made")))
    refusal("cora", tmp_path)
    assert not (tmp_path / "made").exists()


places = st.floats(0, 1, exclude_max=True)


@contextmanager
def little_memory():
    """Limits memory to 4 GiB more: a damaged pickle may ask for any amount, and is refused if it does not get it."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**32, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@settings(max_examples=15)
@given(part=st.sampled_from(CORA_RAW), kind=st.sampled_from(["truncated", "flipped"]), at=places)
def test_of_damaged_cora_nothing_half_read_comes_back(tmp_path_factory, cora, part, kind, at):
    folder = copied("cora", tmp_path_factory.mktemp("damaged"))
    damage(folder / FOLDERS["cora"] / "raw" / part, kind, at)
    with little_memory():
        is_refused_or_intact("cora", folder, cora[1])


@settings(max_examples=15)
@example(kind="empty", at=0)
@example(kind="garbage", at=0)
@given(kind=st.sampled_from(["truncated", "flipped"]), at=places)
def test_of_a_damaged_ppi_go_nothing_half_read_comes_back(tmp_path_factory, ppi_go, kind, at):
    folder = copied("ppi-go", tmp_path_factory.mktemp("damaged"))
    damage(folder / "ppi" / "ppi.npz", kind, at)
    is_refused_or_intact("ppi-go", folder, ppi_go[1])
    if kind in ("truncated", "empty", "garbage"):
        refusal("ppi-go", folder)


def rewritten(arrays):
    """Yields whole files with other contents, by the change."""
    labels = arrays["go_labels"].copy()
    labels[5, 3] ^= 1
    yield "without a part", {key: value for key, value in arrays.items() if key != "split_ends"}
    yield "a label", arrays | {"go_labels": labels}
    yield "the order of the edges' ends", arrays | {"edges": arrays["edges"][:, ::-1] // 2}
    yield "fewer vertices", arrays | {"features": arrays["features"][:-1]}
    yield "another split", arrays | {"split_ends": arrays["split_ends"] - 1}


def test_another_file_in_the_place_of_ppi_go_is_refused(tmp_path):
    path = copied("ppi-go", tmp_path) / "ppi" / "ppi.npz"
    arrays = dict(np.load(path))
    for what, others in rewritten(arrays):
        with zipfile.ZipFile(path, "w") as file:  # not compressed, which takes its time
            for key, value in others.items():
                with file.open(f"{key}.npy", "w") as part:
                    np.save(part, value)
        assert refusal("ppi-go", tmp_path), what


@pytest.mark.parametrize("kind", ["gone", "empty", "garbage", "truncated"])
@pytest.mark.parametrize("part", ["feats.npy", "graph_id.npy", "graph.json", "labels.npy"])
def test_damaged_ppi_is_refused(part, kind, small_ppi):
    folder, _ = small_ppi
    raw = folder / FOLDERS["ppi"] / "raw"
    for split in ("train", "valid", "test"):
        path = raw / f"{split}_{part}"
        whole = path.read_bytes()
        for at in (0.1, 0.6, 0.9999) if kind == "truncated" else (0,):
            damage(path, kind, at)
            refusal("ppi", folder)
            path.write_bytes(whole)
            shutil.rmtree(folder / FOLDERS["ppi"] / "processed", ignore_errors=True)
    assert load("ppi", folder).parts is not None


def graph_without(path, key):
    graph = json.loads(path.read_text())
    graph[key] = graph[key][: len(graph[key]) // 2]
    path.write_text(json.dumps(graph))


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("valid_graph.json", lambda path: graph_without(path, "links")),
        ("test_labels.npy", lambda path: np.save(path, np.load(path) * 2)),
        ("test_labels.npy", lambda path: np.save(path, np.load(path)[:, 0])),
        ("train_feats.npy", lambda path: np.save(path, np.where(np.load(path) > 2, np.nan, 0))),
        ("train_feats.npy", lambda path: np.save(path, np.load(path)[:, 1:])),
        ("valid_feats.npy", lambda path: np.save(path, np.load(path)[1:])),
        ("train_graph_id.npy", lambda path: np.save(path, np.load(path)[:-1])),
        ("train_graph_id.npy", lambda path: np.save(path, np.load(path)[::-1])),
    ],
)
def test_incomplete_ppi_is_refused(part, change, small_ppi):
    folder, _ = small_ppi
    change(folder / FOLDERS["ppi"] / "raw" / part)
    refusal("ppi", folder)


def test_what_was_processed_is_read_without_the_raw_content_and_refused_if_damaged(tmp_path, cora):
    shutil.copytree(cora[0], tmp_path, dirs_exist_ok=True)
    root = tmp_path / FOLDERS["cora"]
    damage(root / "raw" / "ind.cora.graph", "garbage", 0)
    assert same(load("cora", tmp_path), cora[1])
    processed = root / "processed" / "data.pt"
    whole = processed.read_bytes()
    for kind, at in (("empty", 0), ("truncated", 0.5), ("truncated", 0.9999), ("garbage", 0), ("flipped", 0.4)):
        damage(processed, kind, at)
        refusal("cora", tmp_path)
        processed.write_bytes(whole)
    damage(root / "processed" / "pre_transform.pt", "empty", 0)
    refusal("cora", tmp_path)


@pytest.mark.parametrize("name", ["cora", "pubmed", "ppi"])
def test_what_is_neither_there_nor_fetched_is_missing(name, tmp_path):
    root = tmp_path / FOLDERS[name]
    for _ in range(2):  # the first leaves empty folders
        with pytest.raises(OSError, match="no network") as refused:
            load(name, tmp_path)
        line = str(refused.value)
        assert line.startswith(f"{NAMES[name]} is not in {root} and could not be fetched")
        assert f"Copy its raw files into {root / 'raw'}" in line and ("labels_by_gene.npz" in line) == (name == "ppi")


def test_without_its_file_ppi_go_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="has PPI's graphs and features, but other labels") as refused:
        load("ppi-go", tmp_path)
    assert str(tmp_path / "ppi" / "ppi.npz") in str(refused.value)


def test_half_a_download_is_no_dead_end(tmp_path):
    root = tmp_path / FOLDERS["ppi"]
    root.mkdir(parents=True)
    (root / "ppi.zip").write_bytes(b"PK\x03\x04 half of it")  # which torch_geometric does not fetch again
    assert "ppi.zip" in refusal("ppi", tmp_path)


def test_a_folder_that_cannot_be_written_is_no_damage(small_ppi, monkeypatch):
    def read_only(path, *_, **__):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("torch_geometric.io.fs.makedirs", read_only)
    with pytest.raises(OSError, match="folder of a copy that can be written") as refused:
        load("ppi", small_ppi[0])
    assert "damaged" not in str(refused.value)
