"""What a command tells and hears: results, messages and how it ends; tables, lines of progress and a keyboard on a terminal."""
