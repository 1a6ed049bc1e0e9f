"""The choice of networks for sets: strategies and settings, measured on sets whose classes depend on pairs."""
