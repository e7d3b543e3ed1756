"""`agent`: a model that uses the tools of its pipeline."""
