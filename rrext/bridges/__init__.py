"""Faces for other protocols."""
