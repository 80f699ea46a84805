"""The paper's experiments run, kept, laid out beside the paper's numbers, and judged."""
