"""Files: written whole or not at all, and JSON of anybody's read within limits."""
