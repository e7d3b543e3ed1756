"""Engines in processes of their own: how such a process is launched, called, supervised and ended."""
