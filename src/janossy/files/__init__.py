"""Files that are written whole or not at all, and untrusted JSON that is read within limits."""
