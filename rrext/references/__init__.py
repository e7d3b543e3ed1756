"""References to tools, as configuration and requests write them: their names, their form, their problems."""
