"""`rrext sql`: statements from the shell, from files and from a prompt; rows as tables, CSV, JSON or Markdown."""

from rrext.cli.sql.command import DESCRIPTION, EXAMPLE, add_arguments, run

__all__ = ["DESCRIPTION", "EXAMPLE", "add_arguments", "run"]
