"""The choice of a network for sets: strategies and their settings, measured on sets whose classes depend on pairs."""
