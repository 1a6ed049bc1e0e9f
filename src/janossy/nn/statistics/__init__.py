"""Fixed statistics of sets, exactly invariant, in blocks side by side; and functions of them."""

from janossy.nn.statistics.cells import CellCounts, CellPairs
from janossy.nn.statistics.code_values import CodeValues, ContextCodeValues
from janossy.nn.statistics.distinct import DistinctCounts
from janossy.nn.statistics.inner import InnerStatistics
from janossy.nn.statistics.moments import NumberStatistics, OthersAtExtremes
from janossy.nn.statistics.pooled import ContextColumns, PooledStatistics, SetSize
from janossy.nn.statistics.scores import LinearScores, StatisticsNetwork, TreeEnsemble

__all__ = [
    "CellCounts",
    "CellPairs",
    "CodeValues",
    "ContextCodeValues",
    "ContextColumns",
    "DistinctCounts",
    "InnerStatistics",
    "LinearScores",
    "NumberStatistics",
    "OthersAtExtremes",
    "PooledStatistics",
    "SetSize",
    "StatisticsNetwork",
    "TreeEnsemble",
]
