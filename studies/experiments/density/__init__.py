"""What higher order buys a density: three processes whose truth is known, by models of every order, and by others."""
