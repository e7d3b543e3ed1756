"""The editor face: the Language Server Protocol over pygls. Nothing else imports pygls."""
