"""The path from data to released numbers: request, plan, pay, read, draw."""
