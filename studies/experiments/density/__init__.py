"""The gain of densities from higher order, on three processes with known truth, for models of every order and others."""
