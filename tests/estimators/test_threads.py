"""Threads that predict with one network, one estimator, one predictor: results as alone, and nothing left changed."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from janossy import GRU, JanossyNetwork, JanossyPooling, Ragged, Sampled, Stack, TupleMLP, Tuples, batch, predict
from janossy.batch import SetPredictor, predictor
from janossy.estimators import SetClassifier, load, save
from janossy.estimators.saved_predictor import read_predictor
from janossy.nn.modes import evaluating

NUM_THREADS = 4


def at_once(function, arguments):
    """Returns the results of a function, called by several threads at once, several times for each argument."""
    with ThreadPoolExecutor(NUM_THREADS) as pool:
        return list(pool.map(function, [argument for _ in range(8) for argument in arguments]))


@pytest.fixture(scope="module")
def model():
    """Gives a fit whose networks use all pairs of small sets, and sample those of large ones."""
    random = np.random.default_rng(0)
    bags = [random.normal(size=(n, 2)) for n in random.integers(1, 7, 60)]
    options = {"max_epochs": 1, "validation": 0.2, "random_state": 0}
    fitted = SetClassifier({"strategy": "k2", "num_tuples": 8}, **options).fit(bags, [len(bag) > 3 for bag in bags])
    for network in fitted.ensemble_.networks:
        assert network.pooling.orderings_train is not None
        network.pooling.orderings = Tuples(2, max_rows=50)
    return fitted


@pytest.fixture(scope="module")
def small_and_large():
    random = np.random.default_rng(1)
    return [[random.normal(size=(n, 2)) for n in sizes] for sizes in ((2, 3), (40, 50), (5, 60, 1), (30,))]


def test_an_estimator_that_predicts_small_and_large_sets(model, small_and_large):
    orderings = [network.pooling.orderings for network in model.ensemble_.networks]
    alone = [model.predict_proba(sets, return_std=True) for sets in small_and_large]
    assert any((error > 0).any() for _, error in alone) and any((error == 0).all() for _, error in alone)
    found = at_once(lambda sets: model.predict_proba(sets, return_std=True), small_and_large)
    for (mean, error), (expected, expected_error) in zip(found, alone * 8, strict=True):
        np.testing.assert_allclose(mean, expected, atol=1e-6)
        np.testing.assert_allclose(error, expected_error, atol=1e-6)
    assert [network.pooling.orderings for network in model.ensemble_.networks] == orderings


def test_a_network_in_training_mode_by_several_orderings():
    torch.manual_seed(0)
    network = JanossyNetwork(torch.nn.Dropout(0.5), JanossyPooling(GRU(3, 8), Sampled(1)), torch.nn.Linear(8, 2))
    sets = Ragged.from_sets([torch.randn(n, 3) for n in (4, 7, 5, 0)])
    asked = [{"orderings": Sampled(1)}, {"orderings": Sampled(3)}, {"tolerance": 0.1}, {"link": "softmax"}, {}]

    def mean(options):
        return predict(network, sets, num_permutations=12, seed=0, **options).mean

    alone = [mean(options) for options in asked]
    for found, expected in zip(at_once(mean, asked), alone * 8, strict=True):
        torch.testing.assert_close(found, expected)
    assert all(module.training for module in network.modules())
    assert network.pooling.orderings == Sampled(1)


def test_a_predictor(model, tmp_path):
    path = save(model, tmp_path / "model")
    random = np.random.default_rng(2)
    at_work = SetPredictor(path)
    tables = []
    for sizes in ((2, 3), (40,), (7, 30, 1)):
        offsets = np.r_[0, np.cumsum(sizes)].astype("int32")
        values = random.normal(size=(offsets[-1], 2))
        tables.append(pa.table({f"x{j}": pa.ListArray.from_arrays(offsets, values[:, j]) for j in (0, 1)}))
    alone = [at_work(table) for table in tables]
    for found, expected in zip(at_once(at_work, tables), alone * 8, strict=True):
        assert found.column_names == expected.column_names
        for name in found.column_names:
            if pa.types.is_floating(found[name].type):
                np.testing.assert_allclose(found[name].to_numpy(), expected[name].to_numpy(), atol=1e-6)


def test_threads_of_a_worker_read_the_model_once(model, tmp_path, monkeypatch):
    """Like a worker of Dask, which gets a predictor that another process has made."""
    arrived = SetPredictor(save(model, tmp_path / "model"))
    predictor.load_once.cache_clear()
    loads, at_the_door = [], Barrier(NUM_THREADS)

    def slowly(path):
        loads.append(path)
        sleep(0.2)
        return read_predictor(path)

    monkeypatch.setattr(predictor, "read_predictor", slowly)

    def schema(_):
        at_the_door.wait(timeout=10)
        return arrived.schema(pa.schema({name: pa.list_(pa.float64()) for name in ("x0", "x1")}))

    with ThreadPoolExecutor(NUM_THREADS) as pool:
        assert len(list(pool.map(schema, range(NUM_THREADS)))) == NUM_THREADS
    assert len(loads) == 1


def test_threads_that_load_models_at_once(model, tmp_path):
    path, at_the_door = save(model, tmp_path / "model"), Barrier(NUM_THREADS)

    def loaded(_):
        at_the_door.wait(timeout=10)
        return [load(path) for _ in range(3)]

    with ThreadPoolExecutor(NUM_THREADS) as pool:
        found = [each for several in pool.map(loaded, range(NUM_THREADS)) for each in several]
    bags = [np.ones((3, 2)), np.zeros((2, 2))]
    for each in found:
        np.testing.assert_allclose(each.predict_proba(bags), model.predict_proba(bags), atol=1e-6)


def test_dask_s_threads(model, tmp_path):
    dask = pytest.importorskip("dask.dataframe")
    random = np.random.default_rng(3)
    rows = [random.normal(size=(n, 2)) for n in (2, 40, 3, 50, 1, 30, 5, 45)]
    lists = {f"x{j}": pd.Series([x[:, j] for x in rows], dtype=pd.ArrowDtype(pa.list_(pa.float64()))) for j in (0, 1)}
    frame, arrived = pd.DataFrame(lists), SetPredictor(save(model, tmp_path / "model"))
    expected = arrived(pa.Table.from_pandas(frame, preserve_index=False))
    found = batch.on_dask(dask.from_pandas(frame, npartitions=8), arrived).compute(scheduler="threads")
    np.testing.assert_allclose(found["standard_error"], expected["standard_error"].to_numpy(), atol=1e-6)


def test_a_stack_and_functions_of_one_network():
    torch.manual_seed(0)
    stack = Stack([JanossyNetwork(None, JanossyPooling(GRU(3, 8), Sampled(1)), torch.nn.Linear(8, 2)) for _ in "ab"])
    small, large = (Ragged.from_sets([torch.randn(n, 3) for n in sizes]) for sizes in ((2, 3, 5), (20, 30)))

    def mean(asked):
        model, sets, orderings = asked
        return predict(model, sets, orderings=orderings, seed=0).mean

    inside = stack.members()[0]
    asked = [
        *((model, sets, Sampled(1)) for model in (stack, inside, inside.forward) for sets in (small, large)),
        (stack, large, Tuples(2)),
    ]
    alone = [mean(each) for each in asked]
    for found, expected in zip(at_once(mean, asked), alone * 8, strict=True):
        torch.testing.assert_close(found, expected)


def test_evaluation_ends_with_the_last_of_contexts_that_overlap():
    network = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Dropout())
    network[0].eval()
    first, second = evaluating(network), evaluating(network)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not any(module.training for module in network.modules())
    second.__exit__(None, None, None)
    assert [network.training, network[0].training, network[1].training] == [True, False, True]


def test_other_orderings_than_the_network_s():
    network = JanossyNetwork(None, JanossyPooling(TupleMLP(2, 3, 8), Sampled(1, k=2)), torch.nn.Linear(8, 1))
    sets = Ragged.from_sets([torch.randn(n, 3) for n in (4, 7)])
    exact = predict(network, sets, orderings=Tuples(2))
    torch.testing.assert_close(exact.mean, network(sets, Tuples(2)))
    assert (exact.standard_error == 0).all() and (exact.num_permutations == 0).all()
    with pytest.raises(TypeError, match="predict expects orderings"):
        predict(network, sets, orderings="all")
    kept = predict(network, sets, 6, orderings=Sampled(2, k=2), keep_outputs=True, seed=0)
    assert kept.sample.outputs.shape == (6, 1) and kept.sample.sets.tolist() == [0, 0, 0, 1, 1, 1]
    torch.testing.assert_close(kept.sample.block_means, kept.outputs)
