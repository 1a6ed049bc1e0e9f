"""Means over a finite group's images of given tuples: bonds, angles, torsions, rings, hyperedges."""

from janossy.groups.group import Group, cyclic, dihedral, improper, reversal, symmetric
from janossy.groups.images import GroupImages
from janossy.groups.pooling import GroupPooling

__all__ = ["Group", "GroupImages", "GroupPooling", "cyclic", "dihedral", "improper", "reversal", "symmetric"]
