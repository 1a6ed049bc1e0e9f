"""What the bench measures on: of each file a function of its name, which gives a ``DataSet``, or several."""
