"""`rrext sql`: statements from the shell, from files and from a prompt; rows as tables, CSV, JSON or Markdown."""

from rrext.cli.sql.command import add_parser, run

__all__ = ["add_parser", "run"]
