"""Energies of hydration from a molecule's bonds, angles and torsions. docs/freesolv.md has the findings.

    python -m studies.experiments.freesolv.study --data FOLDER    # with freesolv/ in it; else it is downloaded once

Needs the extra ``chemistry`` (RDKit).
"""
