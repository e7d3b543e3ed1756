"""Ways that bytes travel."""
