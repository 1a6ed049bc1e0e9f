"""The gain of densities from higher order: three processes with known truth, and models of every order and others."""
