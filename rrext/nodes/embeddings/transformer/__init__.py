"""Sentence models out of a folder: what their files say, the tokens of a text, and the encoders that compute."""
