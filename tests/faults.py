"""The faults that tests/mutations.py plants: one wrong line each, and the tests that should find it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A fault: ``old``, which occurs once in the file, becomes ``new``. ``what`` describes the effect."""

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def _in(folder: str, file: str, tests: str, what: str, old: str, new: str) -> Fault:
    place = f"{folder}/{file}" if folder.startswith("studies") else f"src/janossy/{folder}/{file}".replace("/./", "/")
    return Fault(what, place, old, new, _paths(tests))


def _paths(tests: str) -> tuple[str, ...]:
    return tuple(f"tests/{name}.py" for name in tests.split())


CELLS = "evaluate/test_recurrences test_laws"
TUPLES = "evaluate/test_every_tuple test_laws"
CHOICE = (
    "evaluate/test_choice evaluate/test_every_tuple evaluate/test_recurrences evaluate/test_spectral nn/test_pooling"
)
ROWS = "evaluate/test_gather orderings/test_orderings test_laws"

FAULTS = (
    # Compiled kernels. Any change of a source compiles all of them anew.
    _in(
        "kernels/cpu", "cells.py", "kernels/test_recurrences " + CELLS,
        "wrong sign in the gradient of the RNN's step",
        "change = by_h * (1.0 - h * h)", "change = by_h * (1.0 + h * h)",
    ),
    _in(
        "kernels/cpu", "recurrences.py", "kernels/test_recurrences " + CELLS,
        "the last of an element's cells is left out of its gradient",
        "for i in range(starts[e] + 1, starts[e + 1]):", "for i in range(starts[e] + 1, starts[e + 1] - 1):",
    ),
    _in(
        "kernels/cpu", "row_matmul.py", "kernels/test_recurrences " + CELLS,
        "the last row of an odd number is not multiplied",
        "        if left >= 1:", "        if left > 1:",
    ),
    _in(
        "kernels/cpu", "relu_pairs.py", "kernels/test_tuple_means evaluate/test_fused",
        "the slopes of relu pairs count one pair of a block too few",
        "num_b[b_at[i]] += high - m", "num_b[b_at[i]] += high - m - 1",
    ),
    _in(
        "kernels/cpu", "product_means.py", "kernels/test_product_means evaluate/test_every_tuple",
        "products of sets of n < k are read where all k positions are filled",
        "full = num if increasing else (1 << num) - 1", "full = k if increasing else (1 << k) - 1",
    ),
    _in(
        "kernels/cpu", "tuple_means.py", "kernels/test_tuple_means evaluate/test_fused",
        "increasing tuples end one element too early",
        "if i >= (n - (last_position - level) if increasing else n):",
        "if i >= (n - (last_position - level) - 1 if increasing else n):",
    ),
    _in(
        "kernels/cpu", "tuple_means.py", "kernels/test_tuple_means evaluate/test_fused",
        "what is carried to float64 is forgotten in the slopes of many tuples",
        "visits, carried = 0, True", "visits, carried = 0, False",
    ),
    _in(
        "kernels/cpu", "series_means.py", "kernels/test_series_means",
        "the bounds of pre-activations overlook the last element",
        "for i in range(offsets[b] + 1, offsets[b + 1]):", "for i in range(offsets[b] + 1, offsets[b + 1] - 1):",
    ),
    # Evaluators
    _in(
        "evaluate", "reduce.py", ROWS,
        "logmeanexp without the number of rows",
        "lambda total, num_rows: total - log(num_rows)", "lambda total, num_rows: total",
    ),
    _in(
        "evaluate", "reduce.py", "evaluate/test_precision",
        "half precision is accumulated in half precision",
        "return x.float() if x.dtype in HALF else x", "return x",
    ),
    _in(
        "evaluate", "choose.py", CHOICE,
        "auto keeps its choice when f's structure changes",
        "None if structure is None else structure.case,", "None,",
    ),
    _in(
        "evaluate", "choose.py", CHOICE,
        "auto keeps its choice when the sizes change",
        "        problem.elements.sizes,\n", "        len(problem.elements.sizes),\n",
    ),
    _in(
        "evaluate", "spectral.py", "evaluate/test_spectral test_laws",
        "the default tolerance in float64 is that of float32",
        "return TOLERANCE_IN_FLOAT64 if dtype == torch.float64 else TOLERANCE", "return TOLERANCE",
    ),
    _in(
        "evaluate", "permanent.py", TUPLES,
        "sets of k - 1 elements lack the zero vector's factor",
        "or any(n < structure.k for n in", "or any(n < structure.k - 1 for n in",
    ),
    _in(
        "evaluate/rows", "incidence.py", "evaluate/test_distinct test_laws",
        "a set reads the list of another, where sets of like tuples stand together",
        "return None if self.owners is None else self.owners.argsort()", "return None",
    ),
    _in(
        "evaluate", "distinct.py", "evaluate/test_distinct",
        "counts are kept while the sizes stay, whatever the ids",
        "and all(map(_equal, batch.numbers, numbers))", "",
    ),
    _in(
        "evaluate", "per_element.py", "nn/test_equivariant",
        "equal elements get outputs of their own places",
        "means = means if order is None else", "means = means if True else",
    ),
    _in(
        "evaluate", "shared_prefixes.py", CELLS,
        "the gradient of merged elements goes to some of them only",
        "means = means_by_counts(values, sizes)",
        "means = values[starts]",
    ),
    _in(
        "evaluate/tuples", "additive.py", TUPLES,
        "the mean of an empty set is left at 0",
        "is_compiling() or 0 in sizes", "is_compiling()",
    ),
    _in(
        "evaluate/tuples", "every_tuple.py", TUPLES,
        "the sum takes the number of tuples of the largest set",
        "each = [counts[n] for n in sizes]", "each = [counts[max(sizes)] for n in sizes]",
    ),
    _in(
        "evaluate/tuples", "place_means.py", TUPLES,
        "the gradient of the bias is that of the last position, which sets of n < k do not fill",
        "by_bias = by_projection[..., :H].sum(-2)", "by_bias = by_projection[..., -H:].sum(-2)",
    ),
    _in(
        "evaluate/tuples", "logistic_means.py", "evaluate/test_place_means",
        "products of exponentials overflow for sums far from zero",
        "FAR[p.dtype] / k", "float('inf')",
    ),
    _in(
        "evaluate/tuples", "place_means.py", "evaluate/test_place_means",
        "the slope of an activation is taken at its value",
        "y if activation in SLOPES else p", "y",
    ),
    _in(
        "evaluate/tuples", "tuple_means.py", "evaluate/test_memory evaluate/test_every_tuple evaluate/test_projected",
        "a last chunk of tuples that is not full is dropped",
        "for piece in tuples.split(step):", "for piece in tuples[: max(step, len(tuples) // step * step)].split(step):",
    ),
    _in(
        "evaluate/cells", "pool.py", CELLS,
        "a mean over slabs is divided by the rows of the first",
        "counts[-1] += part.count", "counts[-1] += 0",
    ),
    _in(
        "evaluate/cells", "pool.py", CELLS,
        "merged rows count once in logmeanexp",
        'rows = rows + shares if reduce == "logmeanexp" else rows * shares',
        'rows = rows if reduce == "logmeanexp" else rows * shares',
    ),
    _in(
        "evaluate/cells", "prefix_tree.py", "evaluate/test_forest " + CELLS,
        "merged arrangements count once",
        "shares = shares[level_parents] * of_left[level_parents, level_kinds]", "shares = shares[level_parents]",
    ),
    _in(
        "evaluate/cells", "prefix_tree.py", "evaluate/test_forest " + CELLS,
        "rows behind the last whole group of branches are dropped",
        "bounds = np.append(bounds[:-1:several], bounds[-1])", "bounds = bounds[::several]",
    ),
    _in(
        "evaluate/cells", "layers.py", "evaluate/test_recurrences nn/test_equivariant",
        "what is read from behind comes out mirrored",
        "directions.append(states[mirror] if direction.reverse and every_state else states)",
        "directions.append(states)",
    ),
    _in(
        "evaluate/cells", "layers.py", CELLS,
        "the bias of the GRU's new gate by the state counts twice",
        "by_hidden = nn.functional.pad(by_hidden[:-apart], (0, apart))", "pass",
    ),
    _in(
        "evaluate/cells", "autograd.py", CELLS,
        "cells read once each: the states before them in another order than their gradients",
        "shape.before[cells.argsort()]", "shape.before",
    ),
    _in(
        "evaluate/rows", "pieces.py", ROWS,
        "the zero vector is read as the last element",
        "positions.where(positions >= 0, num_values - 1)", "positions.where(positions >= 0, max(0, num_values - 2))",
    ),
    _in(
        "evaluate/rows", "pieces.py", "evaluate/test_memory " + ROWS,
        "a last chunk of one row is dropped",
        "for r in range(0, num_rows, rows_each)]", "for r in range(0, max(1, num_rows - 1), rows_each)]",
    ),
    _in(
        "evaluate/rows", "recompute.py", "evaluate/test_memory evaluate/test_gather evaluate/test_recurrences",
        "rows are computed again with the weights of that time",
        "return cast(Tensor, functional_call(applied, now, (x,)))", "return apply(f, x)",
    ),
    # Orderings and sets
    _in(
        "orderings", "rows.py", "orderings/test_orderings test_laws",
        "a position of -1 becomes the element before the set",
        "return positions.where(local >= 0, -1) if self.padded else positions", "return positions",
    ),
    _in(
        "orderings", "rows.py", "orderings/test_orderings test_laws",
        "sets of several sizes read their batch-mates' elements",
        "chosen, starts = all_sets.split(num_sets), keys.offsets[all_sets].split(num_sets)",
        "chosen, starts = all_sets.split(num_sets), keys.offsets[:-1].split(num_sets)",
    ),
    _in(
        "orderings", "schemes.py", "orderings/test_schemes",
        "of sets drawn together, those of other sizes lose the end of a reverse",
        "back = lengths[:, None, None] - 1 -", "back = lengths.max() - 1 -",
    ),
    _in(
        "kernels/cpu", "table_sums.py", "kernels/test_table_sums evaluate/test_lookup",
        "an element is taken times the factor of the first set",
        "load_first(factors, b * H + h, num)", "load_first(factors, h, num)",
    ),
    _in(
        "orderings", "templates.py", "orderings/test_orderings test_laws",
        "one tuple comes twice, and the last one never",
        "    filled[:, :length] = flat.reshape(num_rows, length)\n",
        "    filled[:, :length] = flat.reshape(num_rows, length)\n    filled[-1] = filled[0]\n",
    ),
    _in(
        "orderings", "tuples.py", "orderings/test_orderings test_laws",
        "no tuples are counted where n < k",
        "return perm(n, min(n, self.k))", "return perm(n, self.k)",
    ),
    _in(
        "orderings", "sorting.py", "orderings/test_sorting test_laws",
        "equal keys are not ordered by the features",
        "columns = columns if key is None else [*_numbers(key, elements), *columns]",
        "columns = columns if key is None else _numbers(key, elements)",
    ),
    _in(
        "orderings", "canonical.py", "orderings/test_canonical test_laws",
        "of several keys all orders are that of the first",
        "each = torch.stack(orders, 1)", "each = torch.stack(orders[:1] * num, 1)",
    ),
    _in(
        "orderings", "learned.py", "orderings/test_learned",
        "the probability of the first k forgets the elements that are not among them",
        "if length < n:", "if length < n and False:",
    ),
    _in(
        "losses", "order_loss.py", "losses/test_order_loss",
        "the baseline is the mean of all draws, the one that it is taken from too",
        "others = (losses.sum(1, keepdim=True) - losses) / (self.num_permutations - 1)",
        "others = losses.mean(1, keepdim=True)",
    ),
    _in(
        "losses", "order_loss.py", "losses/test_order_loss",
        "the search follows the worst order",
        "best = losses.detach().argmin(1, keepdim=True)", "best = losses.detach().argmax(1, keepdim=True)",
    ),
    _in(
        "orderings", "sorting.py", "orderings/test_canonical",
        "equal elements count as a tie",
        "(equal[1:] == equal[:-1]).all(1) & (unequal[1:] != unequal[:-1]).any(1)", "(equal[1:] == equal[:-1]).all(1)",
    ),
    _in(
        "orderings", "rows.py", "orderings/test_canonical orderings/test_orderings test_laws",
        "a small set is filled up to k with its first element",
        "max(0, k - orders.shape[-1])), value=-1)", "max(0, k - orders.shape[-1])), value=0)",
    ),
    _in(
        "orderings", "canonical.py", "orderings/test_canonical",
        "of R weighed orders the mean is divided by R once more",
        "self.order_weights() * len(self.each_key)", "self.order_weights()",
    ),
    _in(
        "orderings", "sorting.py", "orderings/test_canonical",
        "a key that is NaN is sorted by",
        "if looks and (nan := columns.isnan()).any():", "if looks and (nan := columns.isinf()).any():",
    ),
    _in(
        "orderings", "learned.py", "orderings/test_learned",
        "in prediction the lowest score comes first",
        "lambda _: -scores", "lambda _: scores",
    ),
    _in(
        "orderings", "learned.py", "orderings/test_learned",
        "an element is chosen among those before it, not among those that are left",
        "chosen.flip(2).logcumsumexp(2).flip(2)", "chosen.logcumsumexp(2)",
    ),
    _in(
        "losses", "order_loss.py", "losses/test_order_loss",
        "the scorer runs away from orders of small loss",
        "((losses - others).detach() * by_scores)", "((others - losses).detach() * by_scores)",
    ),
    _in(
        "losses", "order_loss.py", "losses/test_order_loss",
        "SoftSort's temperature multiplies",
        "noisy[..., None, :]).abs() / self.temperature", "noisy[..., None, :]).abs() * self.temperature",
    ),
    _in(
        "graph", "centrality.py", "graph/test_centrality",
        "walks end where no edge leads on",
        "+ starts * rank[ends].sum(0)", "+ 0 * rank[ends].sum(0)",
    ),
    _in(
        "graph", "centrality.py", "graph/test_centrality",
        "a walk chooses among as many edges as end at a vertex",
        "leaving = np.asarray(edges.sum(0))", "leaving = np.asarray(edges.sum(1))",
    ),
    # Layers from sets to sets
    _in(
        "nn/encoder", "self_attention.py", "nn/test_encoder",
        "elements look at padding too",
        "attend(*part.unbind(2), mask=mask) for part", "attend(*part.unbind(2), mask=None) for part",
    ),
    _in(
        "nn/encoder", "pair_bias.py", "nn/test_encoder",
        "a bias is of pairs of the first set",
        "flat[of_set * n + j]", "flat[j]",
    ),
    _in(
        "nn/encoder", "within.py", "test_compile_once",
        "compiled pairs are of the first set",
        "start + local // n, start + local % n", "local // n, local % n",
    ),
    _in(
        "nn/encoder", "heads.py", "nn/test_encoder",
        "a bias undoes the mask",
        "return bias if mask is None else bias.masked_fill(~mask, -torch.inf)", "return bias",
    ),
    _in(
        "nn/encoder", "residual.py", "nn/test_encoder",
        "a bias reads what blocks before it have made",
        "apply(self.layer, apply(self.norm, sets), inputs)", "apply(self.layer, apply(self.norm, sets), sets)",
    ),
    _in(
        "nn/encoder", "set_encoder.py", "nn/test_encoder_seconds",
        "the last layer of an encoder alone is counted",
        "total += seconds(layer, sets)", "total = seconds(layer, sets)",
    ),
    _in(
        "nn", "inner_sets.py", "nn/test_inner_sets",
        "inner sets of one number are pooled across outer sets",
        "inner_groups(sets.to_index()[1], numbers", "inner_groups(0 * sets.to_index()[1], numbers",
    ),
    _in(
        "nn/statistics", "inner.py", "nn/test_inner_sets",
        "statistics of statistics leave out the last inner set",
        "Ragged.from_sizes(vectors, num_inner.tolist())",
        "Ragged.from_sets([x[:-1] for x in Ragged.from_sizes(vectors, num_inner.tolist()).to_sets()])",
    ),
    _in(
        "nn/encoder", "within.py", "nn/test_encoder",
        "seeds look at padding too",
        "*kv.unbind(2), mask=mask) for q", "*kv.unbind(2), mask=None) for q",
    ),
    _in(
        "kernels/cpu", "relation_means.py", "nn/test_encoder",
        "an element pairs with itself in its own mean",
        "u, v = load(part, at) - (x * c - y * d), load(part, at + lanes) - (x * d + y * c)",
        "u, v = load(part, at), load(part, at + lanes)",
    ),
    _in(
        "kernels/cpu", "relation_means.py", "nn/test_encoder",
        "both others of a triple are the same",
        "return a * x - b * y - r, a * y + b * x - t", "return a * x - b * y, a * y + b * x",
    ),
    _in(
        "evaluate/tuples", "relation_means.py", "nn/test_encoder",
        "an element is among the tuples of its others",
        "permutations(range(1, n), k - 1)", "permutations(range(n - 1), k - 1)",
    ),
    _in(
        "kernels/cpu", "relation_means.py", "nn/test_encoder",
        "an element pairs with itself in the gradient of the others",
        "(others - load(g, 0) * own)", "others",
    ),
    _in(
        "evaluate/tuples", "relation_means.py", "nn/test_encoder",
        "products of sets of n < k leave out the zero vector",
        " * zero[m:].prod(0)", "",
    ),
    _in(
        "evaluate/tuples", "series_means.py", "nn/test_encoder",
        "an element is one of its own others",
        "product.sum(1, keepdim=True) - product for", "product.sum(1, keepdim=True) for",
    ),
    _in(
        "evaluate/tuples", "series_slopes.py", "evaluate/test_series_slopes",
        "slopes of increasing tuples count the element among those behind it",
        " - chain.cumsum(1)\n", " - chain.cumsum(1) + chain\n",
    ),
    _in(
        "evaluate/tuples", "series_slopes.py", "evaluate/test_series_slopes",
        "slopes of tuples take the harmonic for its conjugate",
        "by_sum.conj() * rate", "by_sum * rate",
    ),
    _in(
        "evaluate/tuples", "relation_means.py", "nn/test_encoder",
        "pairs above zero take in the element itself",
        "above - (a + b).relu()", "above",
    ),
    _in(
        "nn/encoder", "padding.py", "nn/test_encoder",
        "a padded place reads an element of another set",
        "np.minimum(np.arange(n), each[list(group), None] - 1)).ravel()", "np.arange(n)).ravel() % sum(sizes)",
    ),
    _in(
        "nn/encoder", "padding.py", "nn/test_encoder",
        "what was grouped by size comes back in the order of the groups",
        "else joined.index_select(0, self._array(_back))", "else joined[self._array(_real)]",
    ),
    _in(
        "nn/encoder", "set_norm.py", "nn/test_encoder",
        "a norm takes the statistics of the batch",
        "(sums / counts).index_select(0, owners)", "(sums.sum() / counts.sum()).expand(len(rows))",
    ),
    _in(
        "nn/encoder", "residual.py", "nn/test_encoder",
        "the norm stands on the path through",
        "self._added(sets.values, apply(self.layer,", "self._added(apply(self.norm, sets).values, apply(self.layer,",
    ),
    _in(
        "nn/encoder", "append_size.py", "nn/test_encoder",
        "of padded sets the size of the largest is told",
        "self._size_feature(mask.sum(1), x)", "self._size_feature(mask.sum(1).amax().expand(len(x)), x)",
    ),
    _in(
        "nn", "network.py", "nn/test_encoder",
        "orders are those of what the encoder gives",
        "            return sets\n        self._check_orderings",
        "            return elements\n        self._check_orderings",
    ),
    _in(
        "nn/groups", "images.py", "nn/groups/test_group_pooling",
        "a group's signs are left out",
        "return self.group.signs is not None", "return False",
    ),
    _in(
        "nn/groups", "pooling.py", "nn/groups/test_group_pooling",
        "the mean over a set's tuples counts one too many",
        ".clamp(min=1)[:, None]", ".add(1)[:, None]",
    ),
    _in(
        "nn/groups", "group.py", "nn/groups/test_group",
        "a table that is not closed is taken for a group",
        "                    if product not in known:", "                    if product not in known and False:",
    ),
    _in(
        "nn/groups", "group.py", "nn/groups/test_group",
        "signs of a group without generators are not checked",
        "for g in generators or [identity]:", "for g in generators:",
    ),
    _in(
        "nn/groups", "pooling.py", "nn/groups/test_group_pooling",
        "a set's first element belongs to the set before it",
        "torch.bucketize(tuples, sets.offsets[1:], right=True)", "torch.bucketize(tuples, sets.offsets[1:])",
    ),
    _in(
        "nn/groups", "pooling.py", "nn/groups/test_group_pooling",
        "one position behind the values is let in",
        "(tuples >= len(values))", "(tuples > len(values))",
    ),
    _in(
        "nn/groups", "pooling.py", "nn/groups/test_group_pooling",
        "an element that a tuple holds twice is found side by side only",
        "in_order = tuples.sort(1).values", "in_order = tuples",
    ),
    _in(
        "nn/groups", "pooling.py", "nn/groups/test_group_pooling",
        "sums of half precision are made in half precision",
        "wide = widened(results)", "wide = results",
    ),
    _in(
        "functions", "monotone_lattice.py", "functions/test_monotone_lattice",
        "a corner of a lattice lies above the lowest of those below it",
        "corners[below].amax(1) + rise", "corners[below].amin(1) + rise",
    ),
    _in(
        "functions", "monotone_lattice.py", "functions/test_monotone_lattice",
        "a calibrator that rises falls back to each of its steps",
        "self.rises.softmax(1).cumsum(1)", "self.rises.softmax(1)",
    ),
    _in(
        "functions", "monotone_lattice.py", "functions/test_monotone_lattice",
        "inputs below the range go on falling",
        ".clamp(0, last)", ".clamp(max=last)",
    ),
    _in(
        "functions", "monotone_lattice.py", "functions/test_monotone_lattice",
        "a corner's neighbours below are those of other inputs too",
        "for j in increasing if v >> j & 1] for v", "for j in range(in_features) if v >> j & 1] for v",
    ),
    _in(
        "orderings", "importance.py", "orderings/test_importance test_laws",
        "the weight of a row is that of all n elements where k are read",
        "weights=steps[:, :, :length].sum(2).exp()", "weights=steps.sum(2).exp()",
    ),
    _in(
        "orderings", "importance.py", "orderings/test_importance test_laws",
        "the share of uniform draws is missing from the probabilities",
        "return torch.logaddexp(logs + by_weight, by_chance)", "return torch.logaddexp(logs, by_chance)",
    ),
    _in(
        "sets", "ragged.py", "test_sets",
        "from_index turns the elements of each set round",
        "x[torch.argsort(index, stable=True)]", "x[len(x) - 1 - torch.argsort(index.flip(0), stable=True)]",
    ),
    # Inference, training, export
    _in(
        "inference", "error_bars.py", "inference/test_error_bars inference/test_predict",
        "the error bar takes no account of the population's size",
        "left = 1 - self.num_draws[:, None] / self.population[:, None]",
        "left = 1 - (self.num_draws >= self.population).double()[:, None]",
    ),
    _in(
        "inference", "error_bars.py", "inference/test_error_bars inference/test_predict",
        "Student's t of one degree of freedom too many",
        "stdtrit, num_blocks - 1, both", "stdtrit, num_blocks, both",
    ),
    _in(
        "orderings", "sampled.py", "inference/test_small_sets",
        "with exact_last, sets give all their orders where they have no more orders than beginnings are asked for",
        "for j in range(self._length(n) - self._last(n))", "for j in range(self._length(n))",
    ),
    _in(
        "evaluate", "packed.py", "inference/test_small_sets",
        "the zero vector behind a small set's row is an element",
        "(0, 1), value=num_values - 1)", "(0, 1), value=0)",
    ),
    _in(
        "evaluate/cells", "by_torch.py", "evaluate/test_by_torch",
        "packed rows of several lengths are read row by row",
        "np.lexsort((rows, steps))", "np.lexsort((steps, rows))",
    ),
    _in(
        "sets", "transfer.py", "test_no_waiting",
        "what is sent to a GPU is waited for",
        "x.pin_memory().to(device, non_blocking=True)", "x.to(device)",
    ),
    _in(
        "inference", "interaction.py", "inference/test_sensitivity",
        "differences are multiplied by those of a corner that shares its elements",
        "return cubes.flip(_axes(order))", "return cubes",
    ),
    _in(
        "inference", "draws.py", "inference/test_control inference/test_predict",
        "the known mean of the control variate has the wrong sign",
        "outputs - controls + self.exact[", "outputs - controls - self.exact[",
    ),
    _in(
        "losses", "permutation_loss.py", "losses/test_permutation_loss",
        "the mean over pairs is over m² of them",
        "pairs.mean() * 2 / (m * (m - 1))", "pairs.mean() * 2 / (m * m)",
    ),
    _in(
        "export", "padded.py", "test_export",
        "what stands in padded places is read",
        "return elements.masked_fill(~mask[..., None], 0), mask", "return elements, mask",
    ),
    _in(
        "export", "padded.py", "test_export",
        "a padded mean counts the padded rows",
        "return values.masked_fill(~counted, 0).sum(1) / counted.sum(1)",
        "return values.masked_fill(~counted, 0).mean(1)",
    ),
    _in(
        "studies/runs", "results.py", "studies/paper/test_damage studies/paper/test_run studies/paper/test_report",
        "a damaged result is accepted",
        "    check(result, schema)\n", "",
    ),
    _in(
        "tables", "grouping.py", "tables/test_forms",
        "rows of a long table that stand in no order are taken as they stand",
        "in_order = bool((codes[1:] >= codes[:-1]).all())", "in_order = True",
    ),
    _in(
        "tables", "table.py", "tables/test_forms",
        "a slice of sets keeps the offsets of the whole",
        "offsets = offsets - offsets[0]", "pass",
    ),
    _in(
        "tables", "targets.py", "tables/test_targets",
        "a table of one row per set gets sets that only the targets know",
        "if add and places:", "if places:",
    ),
    _in(
        "tables", "codes.py", "tables/test_encoder",
        "categories of sets that are not trained on are learnt",
        "if occurs]", "if occurs or True]",
    ),
    _in(
        "density", "all_orders.py", "density/test_laws",
        "the mean over all orders is not divided by their number",
        "total[:, 0] - lgamma(n + 1)", "total[:, 0] - lgamma(n)",
    ),
    _in(
        "density", "all_orders.py", "density/test_laws",
        "a window of the last elements is that of another beginning",
        "[:, t - reach :]", "[:, :reach]",
    ),
    _in(
        "density", "completion.py", "density/test_uses",
        "walks go through what is known first",
        "torch.rand(S * num, n, device=x.device).argsort(1)", "torch.arange(n).repeat(S * num, 1)",
    ),
    _in(
        "density", "exchangeable.py", "density/test_heads",
        "sampled sets come in the order in which they were drawn",
        "torch.rand(len(of_size), n, device=weight.device).argsort(1)", "torch.arange(n).repeat(len(of_size), 1)",
    ),
    _in(
        "density", "autoregressive.py", "density/test_laws",
        "with k, what is read ends one element too early",
        "windows = x[:, 1:].unfold", "windows = x[:, :-1].unfold",
    ),
    _in(
        "density", "exchangeable.py", "density/test_laws",
        "a Janossy density is that of (n − 1)! orders",
        "torch.lgamma(sets.offsets.diff().to(estimate.log_prob.dtype) + 1)",
        "torch.lgamma(sets.offsets.diff().to(estimate.log_prob.dtype))",
    ),
    _in(
        "density", "estimate.py", "density/test_laws",
        "the error of a logarithm is that of what it is of",
        "(sample.standard_error.detach() / sample.mean.detach())", "sample.standard_error.detach()",
    ),
    _in(
        "density", "iid_mixture.py", "density/test_laws density/test_heads",
        "kinds of sets have no weights",
        "return of_kinds + self.head", "return 0 * of_kinds + self.head",
    ),
    _in(
        "density", "heads.py", "density/test_heads",
        "a window is as wide as its upper bound",
        "AffineTransform(self.low, self.high - self.low)", "AffineTransform(self.low, self.high)",
    ),
    _in(
        "density", "checks.py", "density/test_bad_input density/test_uses",
        "elements outside of the head's support are let in",
        "outside = ~head.holds(sets.values)", "outside = head.holds(sets.values) & False",
    ),
    _in(
        "density", "completion.py", "density/test_uses",
        "walks are weighed by what they drew, too",
        "torch.where(is_known, after.log_prob(element), 0)", "after.log_prob(element)",
    ),
    _in(
        "density", "anomaly.py", "density/test_uses",
        "the tail is that of sets less surprising",
        "own >= of_sets[of_size, None]", "own <= of_sets[of_size, None]",
    ),
    _in(
        "evaluate/cells", "half.py", "evaluate/test_half_cells",
        "in bfloat16 a cell's gradient comes from its neighbour's children",
        "np.searchsorted(below, np.arange(num + 1))", 'np.searchsorted(below, np.arange(num + 1), side="right")',
    ),
    _in(
        "nn/encoder", "heads.py", "nn/test_encoder",
        "slots do not compete",
        "/ q.shape[-1] ** 0.5).softmax(2)", "/ q.shape[-1] ** 0.5).softmax(3)",
    ),
    _in(
        "nn/encoder", "heads.py", "nn/test_encoder",
        "slots read padding",
        "weights = weights * mask", "weights = weights * 1",
    ),
    _in(
        "nn/statistics", "cells.py", "nn/test_statistics",
        "the mean of a category that a set lacks is zero",
        "where(num > 0, self.absent)", "where(num > 0, 0 * self.absent)",
    ),
    _in(
        "estimators/streams", "fitting.py", "estimators/test_streams",
        "the sample of a stream is the beginning of its files",
        "np.sort(others[~np.isin(others, drawn)][:num_more])", "np.setdiff1d(others, drawn)[:num_more]",
    ),
    _in(
        "evaluate", "choose.py", "evaluate/test_choice",
        "a choice made in evaluation is kept in training",
        "problem.table is not None and draws_or_mixes_rows(problem.f),", "False,",
    ),
    _in(
        "nn", "element_weights.py", "nn/test_element_weights",
        "a weight of zero does not leave out a value that is not finite",
        "y = y.masked_fill((weights == 0) & ~y.isfinite(), 0)", "y = y * 1",
    ),
    _in(
        "nn/statistics", "distinct.py", "nn/test_statistics",
        "a value that a set repeats is counted again",
        "+ places).unique()", "+ places)",
    ),
    _in(
        "nn/encoder", "moments.py", "nn/test_encoder",
        "shares of slots count padding",
        "scores.softmax(1) * mask[:, None]", "scores.softmax(1)",
    ),
    _in(
        "nn/encoder", "moments.py", "nn/test_encoder",
        "the spread of a slot is around zero",
        "(x - means.index_select(0, owners)).square()", "x.square()",
    ),
    _in(
        "studies/paper", "adam.py", "studies/test_adam",
        "steps are not counted",
        "torch._foreach_add_(tensors[5], 1)", "torch._foreach_add_(tensors[5], 0)",
    ),
    _in(
        "studies/paper", "adam.py", "studies/test_adam",
        "hooks of this optimiser are not called",
        "return bool(own or everyones or scaled)", "return bool(everyones or scaled)",
    ),
    _in(
        "studies/paper", "adam.py", "studies/test_adam",
        "AMSGrad is plain Adam",
        'if group["amsgrad"] or not group["fused"]', 'if not group["fused"]',
    ),
    _in(
        "studies/paper/arithmetic", "first_order.py", "studies/paper/test_stacked",
        "stacked replicas are trained on the first one's examples",
        "order + number * self.num for", "order for",
    ),
    _in(
        "studies/paper/arithmetic", "first_order.py", "studies/paper/test_stacked",
        "one that diverged stays in the stack",
        "if len(finite) < len(losses):", "if len(finite) > len(losses):",
    ),
    _in(
        "studies/paper/arithmetic", "first_order.py", "studies/paper/test_stacked",
        "stacked learning rates are all 1",
        "if not alike:", "if alike:",
    ),
    _in(
        "estimators/classical", "target_encoding.py", "estimators/test_target_encoding",
        "a group is spread over the inner folds",
        "together = np.arange(len(training)) if groups is None else np.unique(groups, return_inverse=True)[1]",
        "together = np.arange(len(training))",
    ),
    _in(
        "nn/statistics", "cells.py", "nn/test_statistics",
        "shares are of the cells that are kept",
        'total = sets.reduced(weights[:, None], "sum")', "total = counts.sum(1, keepdim=True)",
    ),
)  # fmt: skip
