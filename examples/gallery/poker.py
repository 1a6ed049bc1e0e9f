# %% [markdown]
# # Poker: elements that must be compared
#
# Does a hand hold two cards of one rank? Pairs of cards and their equalities see it at once. A network that reads one
# card at a time has to learn every rank by itself.

# %%
import numpy as np
from matplotlib import pyplot as plt

from janossy.estimators import SetClassifier

random = np.random.default_rng(0)


def deal(num):
    """Returns hands of five cards, (suit, rank) each, and True for those with two cards of one rank."""
    decks = random.permuted(np.tile(np.arange(52), (num, 1)), axis=1)[:, :5]
    hands = np.stack((decks // 13, decks % 13 + 1), axis=2)
    return list(hands), np.array([len(np.unique(hand[:, 1])) < 5 for hand in hands])


hands, labels = deal(1000)
test, truth = deal(1000)
print(f"a hand: {hands[0].tolist()}, a pair: {labels[0]}; {labels.mean():.0%} of all hands have one")

# %% [markdown]
# A strategy is a name. `categorical` says that suits and ranks are codes, not numbers. `k1` is DeepSets, which averages
# over single cards; `max` takes the maximum. `k2+features` reads pairs of cards, and what is equal in them.

# %%
numbers, strategies = (125, 250, 500, 1000), ("k1", "max", "k2+features")
scores = {strategy: [] for strategy in strategies}
for strategy in strategies:
    for number in numbers:
        model = SetClassifier(strategy, categorical=["x0", "x1"], max_epochs=20, validation=0.2, random_state=0)
        scores[strategy].append(model.fit(hands[:number], labels[:number]).score(test, truth))
    print(f"{strategy:12}", *(f"{score:6.1%}" for score in scores[strategy]))

# %%
figure, axes = plt.subplots(num="Accuracy by the number of training hands: pairs with their equalities are far ahead.")
for strategy in strategies:
    axes.semilogx(numbers, scores[strategy], "o-", label=strategy)
axes.axhline(max(truth.mean(), 1 - truth.mean()), color="0.7", linewidth=1)
axes.set(xticks=numbers, xticklabels=numbers, xlabel="training hands", ylabel="accuracy")
axes.minorticks_off()
figure.legend(loc="outside upper right", ncols=3, frameon=False)

# %% [markdown]
# The grey line is the accuracy of the more frequent answer. [Choosing](../choosing.md) has the measurement on all 2.6
# million hands.
