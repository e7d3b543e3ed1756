"""Sounds: texts that are spoken, and sounds that are played."""
