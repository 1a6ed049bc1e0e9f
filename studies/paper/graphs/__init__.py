"""The paper's vertex classification (Section 4.2): Tables 2, 9 and 10, and Figure 2."""
