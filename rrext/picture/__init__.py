"""Pictures of pipelines: layout, and output as text, SVG and Mermaid."""
