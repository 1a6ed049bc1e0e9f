"""Models that ``predict`` takes: a network, a wrapper of one, or a function of sets and orderings."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any, cast

from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from janossy.nn.network import JanossyNetwork, check_network
from janossy.orderings import Orderings, RandomOrderings
from janossy.orderings.drawn import Drawn
from janossy.sets import Ragged

WRAPPERS = (AveragedModel, nn.DataParallel, nn.parallel.DistributedDataParallel)
"""The wrappers that hold another module as ``module``, and call it with their own arguments."""


def unwrapped(model: Any) -> Any:
    """Returns the module inside a compiled one, an ``AveragedModel`` or ``DataParallel``; others as they are."""
    while isinstance(model, nn.Module):
        compiled = dict(model.named_children()).get("_orig_mod")  # the import of its class in torch is slow
        if compiled is not None:
            model = compiled
        elif isinstance(model, WRAPPERS):
            model = model.module
        else:
            return model
    return model


def network_in(model: Any, owner: str) -> JanossyNetwork:
    """Returns the network inside wrappers. Raises: TypeError if it is not a ``JanossyNetwork``."""
    network = unwrapped(model)
    check_network(network, owner)
    return cast(JanossyNetwork, network)


@dataclass(frozen=True)
class SetFunction:
    """A function ``model(sets, orderings)``, which ``predict`` calls with drawn rows, or with exact orderings.

    Shapes: a Ragged of B sets, orderings -> (T, out): one row per set, or per draw if draws are reduced separately.
    """

    function: Callable[..., Tensor]

    def elements(self, sets: Ragged) -> Ragged:
        """Returns the sets, as the function applies h itself."""
        return sets

    def __call__(
        self, sets: Ragged, orderings: Orderings, *, context: Tensor | None = None, elements: Ragged | None = None
    ) -> Tensor:
        given: dict[str, Any] = {} if context is None else {"context": context}
        outputs = self.function(sets, orderings, **given)
        num, what = len(sets), "set"
        if isinstance(orderings, Drawn) and orderings.rows.owners is not None:
            num, what = orderings.rows.num_sets, "draw"
        if not isinstance(outputs, Tensor) or outputs.dim() != 2 or len(outputs) != num:
            got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise ValueError(
                f"predict expects a model that returns ({num}, out), one row per {what}; got {got}. Pass the orderings "
                "on to each network: lambda sets, orderings: network(sets, orderings)."
            )
        return outputs


def set_function(model: Any, orderings: Orderings | None, context: Tensor | None) -> SetFunction:
    """Returns the model as a ``SetFunction``.

    Raises: TypeError if it is not a function of sets and orderings, or if there are no orderings.
    """
    kind = type(model).__name__
    if not callable(model) or isinstance(model, type):
        raise TypeError(
            f"predict expects a JanossyNetwork, a Stack, or a function of sets and orderings; got {kind}. Write "
            "JanossyNetwork(h, pooling, rho), of which h and rho may be None."
        )
    if orderings is None:
        raise TypeError(
            f"predict expects a JanossyNetwork, or orderings= with another model; got a {kind} and no orderings. Give "
            "those to average over, such as Sampled(1), or Tuples(2) where nothing is drawn. If the model draws by "
            "itself, write predict_passes(lambda: model(sets))."
        )
    given: dict[str, Any] = {} if context is None else {"context": context}
    try:
        signature(model.forward if isinstance(model, nn.Module) else model).bind(None, orderings, **given)
    except TypeError:
        call = "model(sets, orderings, context=…)" if given else "model(sets, orderings)"
        raise TypeError(
            f"predict expects a model that is called {call}; got a {kind} of other arguments. Write "
            "lambda sets, orderings: network(sets, orderings)."
        ) from None
    except ValueError:  # code that is not Python's has no signature
        pass
    return SetFunction(model)


def modules_in(model: Any) -> list[nn.Module]:
    """Returns the module that is called, if it is a module."""
    called = model.function if isinstance(model, SetFunction) else model
    return [called] if isinstance(called, nn.Module) else []


def drawing_beside_pooling(model: Any) -> dict[str, RandomOrderings]:
    """Returns the orderings that other layers of a network than its pooling draw at every call in evaluation mode.

    They come by the layer's name.
    """
    if not isinstance(model, JanossyNetwork):
        return {}
    of_pooling = set(model.pooling.modules())
    others = {name: part for name, part in model.named_modules() if part not in of_pooling}
    drawing = {name: part for name, part in others.items() if not getattr(part, "fixed_in_eval", False)}
    found = {name: getattr(part, "orderings", None) for name, part in drawing.items()}
    random = {name: own for name, own in found.items() if isinstance(own, RandomOrderings) and own.seed is None}
    return {name: own for name, own in random.items() if own.in_prediction().draws}
