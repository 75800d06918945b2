"""The privacy ledger: a budget for one dataset, kept in a file, on a server or in memory."""
