"""The data sets of the bench. Each file has a function of its name that returns a ``DataSet``, or several."""
