"""The paper's experiments as data: its cells, its claims, and what it prints."""
