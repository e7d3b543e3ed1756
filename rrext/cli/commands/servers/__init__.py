"""Commands that serve, and those about servers: what runs, what happened, and a recording played again."""
