"""The data sets of the bench: each file has a function of its name, which gives a ``DataSet``, or several."""
