"""Means over the images of given tuples under a finite group: bonds, angles, torsions, rings, hyperedges."""

from janossy.nn.groups.group import Group, cyclic, dihedral, improper, reversal, symmetric
from janossy.nn.groups.images import GroupImages
from janossy.nn.groups.pooling import GroupPooling

__all__ = ["Group", "GroupImages", "GroupPooling", "cyclic", "dihedral", "improper", "reversal", "symmetric"]
