"""A pipeline as a picture: what is drawn, where it stands, and how it looks as text, SVG and Mermaid."""
