"""What a budget is, and how costs add up: here and nowhere else, rounded against ourselves."""
