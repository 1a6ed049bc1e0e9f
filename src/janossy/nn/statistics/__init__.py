"""Fixed statistics of sets, exactly invariant, in blocks side by side; and functions of them."""

from janossy.nn.statistics.cells import CellCounts
from janossy.nn.statistics.code_values import CodeValues
from janossy.nn.statistics.linear_scores import LinearScores
from janossy.nn.statistics.moments import NumberStatistics, OthersAtExtremes
from janossy.nn.statistics.network import StatisticsNetwork
from janossy.nn.statistics.pairs import CellPairs
from janossy.nn.statistics.pooled import ContextColumns, PooledStatistics, SetSize
from janossy.nn.statistics.tree_ensemble import TreeEnsemble

__all__ = [
    "CellCounts",
    "CellPairs",
    "CodeValues",
    "ContextColumns",
    "LinearScores",
    "NumberStatistics",
    "OthersAtExtremes",
    "PooledStatistics",
    "SetSize",
    "StatisticsNetwork",
    "TreeEnsemble",
]
