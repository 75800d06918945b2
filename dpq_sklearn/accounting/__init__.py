"""What a budget is, and the rules by which costs add up, all rounded against ourselves."""
