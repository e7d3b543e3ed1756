"""Tools of HTTP APIs, from an OpenAPI document or from templates of URLs."""
