"""MySQL and MariaDB as SQL databases."""
