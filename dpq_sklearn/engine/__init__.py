"""The engine: randomness, the public grid, ranks, and the exponential mechanism."""
