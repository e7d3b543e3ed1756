"""The offers of completion, by kind of position."""
