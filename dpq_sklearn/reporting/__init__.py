"""What people read: statements, tables and displays of what was released and what it cost."""
