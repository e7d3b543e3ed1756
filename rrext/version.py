"""The version of rrext."""

__version__ = "0.1.0"
