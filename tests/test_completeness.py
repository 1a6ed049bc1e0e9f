"""No strategy without its line in the examples and its export; no public name without its documentation."""

import ast
import doctest
import importlib
import inspect
import tempfile
import textwrap
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import nn

import janossy
from janossy import (
    batch,
    density,
    estimators,
    evaluate,
    functions,
    graph,
    inference,
    losses,
    orderings,
    saving,
    tables,
    testing,
)
from janossy import nn as layers
from janossy.estimators import strategies as named_networks
from janossy.nn import groups
from tests import examples

SOURCE = Path(janossy.__file__).parent

EXAMPLES = {
    "orderings": {type(orderings).__name__ for orderings in examples.ORDERINGS.values()},
    "functions": {type(example.build(2)).__name__ for example in examples.FUNCTIONS.values()},
    "evaluate": {type(evaluator).__name__ for evaluator in examples.EVALUATORS.values()},
}

NO_STRATEGY = {"Drawn", "Orderings", "RandomOrderings", "Drawing", "OfAnySizes"}
"""The rows that an ordering has drawn, the base classes of orderings, and what "auto" takes under torch.compile only
(tests/test_compile_once.py)."""

MARK = {"orderings": "enumerate", "functions": "forward", "evaluate": "why_not_applicable"}
"""The method that makes a public class a strategy: it, or a class of its file that it inherits from, defines it."""


def strategies(folder: Path, method: str) -> set[str]:
    """Returns the public strategy classes that the files of this folder define, and that none there inherits from."""
    found = set()
    for file in folder.glob("*.py"):
        classes = {node.name: node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)}
        parents = {base.id for node in classes.values() for base in node.bases if isinstance(base, ast.Name)}
        for name, node in classes.items():
            bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
            bodies = [node, *(classes[base] for base in bases if base in classes)]
            methods = {item.name for body in bodies for item in body.body if isinstance(item, ast.FunctionDef)}
            if name.startswith("_") or name in parents or name in NO_STRATEGY or "Protocol" in bases:
                continue
            if method in methods:
                found.add(name)
    return found


def law_complete(folder: Path, method: str, exampled: set[str], exported: list[str]) -> None:
    found = strategies(folder, method)
    assert found, f"no strategy in {folder}"
    assert found <= exampled, f"not in tests/examples.py: {found - exampled}"
    assert found <= set(exported), f"not exported: {found - set(exported)}"


@pytest.mark.parametrize("folder", MARK)
def test_every_strategy_is_exampled_and_exported(folder):
    exported = importlib.import_module(f"janossy.{folder}").__all__
    law_complete(SOURCE / folder, MARK[folder], EXAMPLES[folder], exported)


@pytest.mark.parametrize("exampled, exported", [(set(), ["New"]), ({"New"}, [])])
def test_a_forgotten_strategy_is_found(tmp_path, exampled, exported):
    source = """
        class _Shared(nn.Module):
            def forward(self, x): ...

        class New(_Shared):
            pass
    """
    (tmp_path / "new.py").write_text(textwrap.dedent(source))
    law_complete(tmp_path, "forward", {"New"}, ["New"])
    with pytest.raises(AssertionError, match="New"):
        law_complete(tmp_path, "forward", exampled, exported)
    with pytest.raises(AssertionError, match="no strategy"):
        law_complete(tmp_path, "enumerate", {"New"}, ["New"])


def law_documented(thing, headings: tuple[str, ...]) -> None:
    documentation = thing.__doc__ or ""
    first = documentation.strip().split("\n")[0]
    assert first.endswith((".", ":")) or "\n\n" in documentation, f"{thing.__name__} has no first sentence"
    missing = [heading for heading in headings if f"{heading}:" not in documentation]
    assert not missing, f"{thing.__name__} does not document {', '.join(missing)}"


PUBLIC = {
    **{name: janossy for name in janossy.__all__},
    **dict.fromkeys(sorted(EXAMPLES["evaluate"]), evaluate),
    **dict.fromkeys(("ControlVariate", "Prediction", "fit_control_variate", "predict_passes"), inference),
    **dict.fromkeys(("InteractionOrder", "Sensitivity", "interaction_order", "sensitivity"), inference),
    **dict.fromkeys(sorted({*losses.__all__} - {"PermutationLoss"}), losses),
    **dict.fromkeys(("GraphSAGE", "Neighbourhoods", "TwoHops", "neighbour_keys", "two_hops"), graph),
    **dict.fromkeys(groups.__all__, groups),
    **dict.fromkeys(density.__all__, density),
    **dict.fromkeys(("FeaturedMLP", "GatedAttention", "MonotoneLattice", "Recurrence", "TupleFeatures"), functions),
    "OrderWeights": orderings,
    "Learned": orderings,
    **dict.fromkeys(layers.__all__, layers),
    **dict.fromkeys(estimators.__all__, estimators),
    **dict.fromkeys(sorted({*tables.__all__} - {"Layout"}), tables),
    **dict.fromkeys(("load", "save"), saving),
    "SetPredictor": batch,
    "build_network": named_networks,
    "assert_invariant": testing,
}
"""The names that users find, and where they import them from; first those that one starts from."""


def test_a_class_has_its_name_alone():
    names = Counter(
        node.name
        for file in Path(janossy.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert len(names) > 300
    assert [name for name, times in names.items() if times > 1] == []


def test_one_starts_from_few_names():
    assert len(janossy.__all__) <= 25


RECORDS = {"Epoch", "NothingTrained", "Progress", "Trial", "UnfinishedTraining"}
"""The names of what a search tells of itself, without an array."""


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented(name):
    headings = ("Applies to",) if name in EXAMPLES["evaluate"] else () if name in RECORDS else ("Shapes",)
    law_documented(getattr(PUBLIC[name], name), headings)


@pytest.mark.parametrize("name", sorted(EXAMPLES["orderings"]))
def test_every_ordering_declares_itself(name):
    law_documented(getattr(orderings, name), ("Shapes", "Invariance", "Cost", "Raises", "Example"))


def test_an_undocumented_name_is_found():
    class Silent:
        pass

    class Terse:
        """Something."""

    for thing in (Silent, Terse):
        with pytest.raises(AssertionError):
            law_documented(thing, ("Shapes",))


SLOW = ("PaddedNetwork", "SetClassifier", "export_onnx")
"""The examples that export a network, or fit several, as other tests do too."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.only_all) if name in SLOW else name for name in PUBLIC]
)
def test_the_examples_in_docstrings_run(name):
    thing = getattr(PUBLIC[name], name)
    names = {
        "np": np,
        "pa": pa,
        "Layout": tables.Layout,
        "torch": torch,
        "nn": nn,
        "tempfile": tempfile,
        **{name: getattr(module, name) for name, module in PUBLIC.items()},
    }
    for test in doctest.DocTestFinder(recurse=False).find(thing, name, module=inspect.getmodule(thing), globs=names):
        assert doctest.DocTestRunner().run(test).failed == 0
