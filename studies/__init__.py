"""The studies of janossy, which are not installed: the paper's, the bench beside peers, and experiments of our own."""
