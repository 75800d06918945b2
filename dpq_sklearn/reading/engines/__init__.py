"""Engines: where a table lies, in memory or on many machines, behind one protocol."""
