"""The privacy ledger: a budget for one dataset, kept in a file."""
