"""The paper's arithmetic tasks on sets of integers (Section 4.1)."""
