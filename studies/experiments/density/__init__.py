"""The gain of a density from higher order: three processes whose truth is known, by models of every order, and by
others.
"""
