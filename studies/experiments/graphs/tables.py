"""The tables of best.md, and the paired comparisons below them."""

from statistics import mean, stdev

from studies.experiments import markdown
from studies.experiments.graphs.models import BASELINES, OURS, is_sampled
from studies.experiments.graphs.plans import PLANS, chosen, runs_of
from studies.paper.graphs.datasets import NAMES

HEADER = (
    "model", "validation", "test, 1 pass", "test, 20 passes", "seeds", "setting", "parameters", "epochs kept", "seconds"
)  # fmt: skip

ABOUT = """\
# Beyond the paper: the best micro-F1

Ours in bold: `JanossySAGEConv`, beside torch_geometric's convolutions in the same network, trained by the same loop on
the same splits. Each model takes, of the same few settings (`PLANS`), the one with the best mean validation micro-F1
over the first seeds. Means (standard deviations over seeds) of micro-F1 on validation and test vertices; a sampled
model's is that of one pass and of the mean probabilities of 20. Setting: layers × width. Seconds are those of a
training on part of a busy core; most of ours by `SAGEConv` with a `JanossyAggregation`, which is the same network, and
slower. A new seed is a new split of Cora and PubMed; of PPI and PPI-GO only new weights. On PPI the learning rate
is tuned as well, for each model by itself, and the setting names it. Another table gives each model ten minutes of
one thread on PPI, with its passes over validation vertices, at each of two widths. There the learning rate is 0.003.

torch_geometric's LSTM pads every neighbourhood to the longest: on whole neighbourhoods a step took 7 seconds on Cora
(width 64), where ours took 0.2, and on PubMed more than 20 GB. "SAGE LSTM" therefore reads the first ten neighbours, in
the order of the edges.

Numbers of seeds are what time allowed; the command goes on where it was. Slow models are tuned on one seed. PubMed and
PPI-GO have one setting for all, taken after a few trials with baselines on seed 0. On PPI-GO 30 epochs, 600 steps, are
too few: the best epochs are among the last. A model without a row has not been tuned on that data set.
"""


def _results(cells: list[dict], dataset: str) -> dict[str, list[dict]]:
    """Returns the runs of each model's chosen setting, one per seed."""
    found = {model: runs_of(cells, dataset, model, chosen(cells, dataset, model)) for model in PLANS[dataset].models}
    return {model: runs for model, runs in found.items() if runs}


def _best(results: dict[str, list[dict]], models: dict) -> str | None:
    """Returns the best of these models by mean validation, among those that were run on the most seeds."""
    some = {model: runs for model, runs in results.items() if model in models}
    most = max(map(len, some.values()), default=0)
    return max(
        (model for model, runs in some.items() if len(runs) == most),
        key=lambda model: mean(run["validation"] for run in some[model]),
        default=None,
    )


def comparison(results: dict[str, list[dict]]) -> str:
    """Returns the comparison of our best model and the best baseline, by validation, on the seeds that both have."""
    ours, baseline = _best(results, OURS), _best(results, BASELINES)
    if ours is None or baseline is None:
        return ""
    scores = [{run["seed"]: run["test"][-1] for run in results[model]} for model in (ours, baseline)]
    differences = [scores[0][seed] - scores[1][seed] for seed in sorted(scores[0].keys() & scores[1].keys())]
    n = len(differences)
    error = f" (standard error {stdev(differences) / n**0.5:.4f})" if n > 1 else ""
    return (
        f"Of those with the most seeds, validation chooses **{ours}** among ours and **{baseline}** among "
        f"torch_geometric's. Test micro-F1 of **{ours}** − **{baseline}**, paired: {mean(differences):+.4f}{error}, "
        f"{n} seed{'s'[: n > 1]}."
    )


def table(cells: list[dict]) -> str:
    """Returns the page: the method, and a table and a paired comparison per data set."""
    sections = (_section(dataset, results) for dataset in PLANS if (results := _results(cells, dataset)))
    return "\n".join([ABOUT, *sections])


def _section(dataset: str, results: dict[str, list[dict]]) -> str:
    rows = [
        (
            f"**{model}**" if model in OURS else model,
            _spread([run["validation"] for run in runs]),
            _spread([run["test"][0] for run in runs]),
            _spread([run["test"][-1] for run in runs]) if is_sampled(model) else "",
            len(runs),
            _name(runs[0]["architecture"]) + _rate(dataset, runs[0]["schedule"]),
            runs[0]["num_trainable_parameters"],
            f"{mean(run['epochs_kept'] for run in runs):.0f} of {mean(run['epochs'] for run in runs):.0f}",
            f"{mean(run['seconds'] for run in runs):.0f}",
        )
        for model, runs in results.items()
    ]
    title = PLANS[dataset].title or NAMES[dataset]
    return f"## {title}\n\n{markdown.table(HEADER, rows)}\n{comparison(results)}\n"


def _spread(values: list[float]) -> str:
    return f"{mean(values):.4f}" + (f" ({stdev(values):.4f})" if len(values) > 1 else "")


def _rate(dataset: str, schedule: dict) -> str:
    return f", rate {schedule['learning_rate']}" if PLANS[dataset].learning_rates else ""


def _name(architecture: dict) -> str:
    parts = [f"{architecture['num_layers']} × {architecture['hidden_features']}", f"dropout {architecture['dropout']}"]
    parts += ["residual"] * architecture["residual"] + [f"jump {architecture['jump']}"] * bool(architecture["jump"])
    return ", ".join(parts)
