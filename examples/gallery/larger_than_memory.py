# %% [markdown]
# # Sets larger than memory
#
# A stream reads Parquet files one row group at a time. A fit holds a part of the sets, however many there are.

# %%
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from matplotlib import pyplot as plt
from pyarrow import parquet

from janossy.batch import SetPredictor
from janossy.estimators import SetRegressor, save
from janossy.tables import SetStream

random = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())


def write(path, first, num):
    """Writes orders of one to eight items: price and weight of each, and what the delivery costs."""
    prices, weights = zip(
        *((random.gamma(2, 5, n), random.gamma(2, 2, n)) for n in random.integers(1, 9, num)), strict=True
    )
    costs = [2 + w.sum() / 5 + (5 if p.max() > 30 else 0) for p, w in zip(prices, weights, strict=True)]
    table = {"order": range(first, first + num), "price": prices, "weight": weights, "cost": costs}
    parquet.write_table(pa.table({name: pa.array(values) for name, values in table.items()}), path, row_group_size=1000)


for part in range(4):
    write(folder / f"part-{part}.parquet", 5000 * part, 5000)
print(*(path.name for path in sorted(folder.iterdir())))

# %% [markdown]
# `SetStream` names the files and the columns; nothing is read yet. `fit` makes one pass for means and categories, and
# then learns from shuffled row groups. A tenth of the sets is left out for validation.

# %%
sets = SetStream(f"{folder}/part-*.parquet", y="cost", set_id="order")
model = SetRegressor("k1", max_epochs=4, random_state=0).fit(sets)
trial = model.trials_[-1]
print(f"{trial.epochs} epochs, validation loss {trial.loss:.4f}")

# %% [markdown]
# A saved model predicts batch by batch. `SetPredictor` is a function from an Arrow table to an Arrow table, so the same
# object works inside [Ray, Spark, Dask or Daft](../batch.md).

# %%
save(model, folder / "model")
predictor = SetPredictor(str(folder / "model"))
write(folder / "new.parquet", 20_000, 2000)
predicted, truth = [], []
for batch in parquet.ParquetFile(folder / "new.parquet").iter_batches(batch_size=500):
    predicted += predictor(batch).column("prediction").to_pylist()
    truth += batch.column("cost").to_pylist()
residual = np.array(predicted) - truth
print(f"{len(predicted)} orders, RMSE {np.sqrt((residual**2).mean()):.2f}, standard deviation {np.std(truth):.2f}")

# %%
figure, axes = plt.subplots(num="Predicted against true costs of new orders, near the diagonal.")
axes.axline((5, 5), slope=1, color="0.7", linewidth=1)
axes.plot(truth, predicted, ".", markersize=3, alpha=0.4)
axes.set(xlabel="true cost", ylabel="predicted cost")
