# %% [markdown]
# # Molecules: one number per bag of atoms
#
# The energy of hydration of a molecule is predicted from its atoms: element, number of bonds and partial charge.

# %%
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split

from janossy.estimators import SetRegressor
from janossy.tables import as_sets

atoms = pd.read_parquet("data/molecules.parquet")
print(atoms.head(3))

# %% [markdown]
# The table has one row per atom. `as_sets` makes one set per molecule, so that splits never cut a molecule in two.

# %%
molecules, energies = as_sets(atoms, "energy", set_id="molecule")
print(molecules)
train, test, y_train, y_test = train_test_split(molecules, energies, test_size=0.2, random_state=0)

# %%
model = SetRegressor("k1", max_epochs=40, validation=0.1, random_state=0).fit(train, y_train)
predicted = model.predict(test)
print(f"RMSE {root_mean_squared_error(y_test, predicted):.2f} kcal/mol; standard deviation {y_test.std():.2f}")

# %%
figure, axes = plt.subplots(num="Predicted against measured energies of the test molecules, near the diagonal.")
axes.axline((-10, -10), slope=1, color="0.7", linewidth=1)
axes.plot(y_test, predicted, "o", markersize=4, alpha=0.6)
axes.set(xlabel="measured, kcal/mol", ylabel="predicted, kcal/mol")

# %% [markdown]
# This is one split and a short training. [FreeSolv](../freesolv.md) compares what can be pooled: atoms, bonds, angles
# and torsions, over five folds.
