"""Sentence models in a folder: their settings, the tokens of a text, and the encoders."""
