"""Tasks on other machines: Ray places hosts, and each host runs workers that this server's calls reach over TLS."""
