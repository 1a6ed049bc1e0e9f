"""The measurements of docs/sampling.md on the number of permutations.

    python -m studies.experiments.sampling.networks      trains what the others measure: about 20 minutes on two cores
    python -m studies.experiments.sampling.variance      docs/results/sampling/variance.md: every scheme
    python -m studies.experiments.sampling.coverage      … coverage.md: error bars
    python -m studies.experiments.sampling.small         … small.md: error bars of sets of 1 to 12
    python -m studies.experiments.sampling.stopping      … stopping.md: tolerances
    python -m studies.experiments.sampling.rao_blackwell … rao_blackwell.md: exact last positions; distinct tuples
    python -m studies.experiments.sampling.control       … control.md: control variates and history
    python -m studies.experiments.sampling.importance    … importance.md
    python -m studies.experiments.sampling.objectives    … objectives.md and pi-sgd.png
    python -m studies.experiments.sampling.audit         … sensitivity.md and interaction_order.md
    python -m studies.experiments.sampling.covariance    … covariance.md: what the designs are made for
    python -m studies.experiments.sampling.designs       src/janossy/orderings/designs.json

They need the extra ``dev``, and for PPI-GO a folder with ppi/ppi.npz (--data).
"""
