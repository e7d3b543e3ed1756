"""Documents of an organisation: catalogs for each user and each space apart, and the tools over them."""
