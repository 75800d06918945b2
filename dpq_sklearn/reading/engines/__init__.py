"""Engines that hold tables on many machines, behind one protocol."""
