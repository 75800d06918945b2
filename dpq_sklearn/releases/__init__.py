"""The one way from data to released numbers: request, plan, pay, read, draw."""
