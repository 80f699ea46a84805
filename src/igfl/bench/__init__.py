"""How fast: the workloads, the bare loop they are measured against, and the table of ratios."""
