"""Which network for which sets: strategies and their settings, measured on sets whose classes are a matter of pairs."""
