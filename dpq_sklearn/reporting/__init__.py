"""Reports for people: statements, tables and displays of releases and their costs."""
