"""What clients and operators see of an engine: statuses, monitors, run logs, profiles, the catalog of nodes, blocked loops."""
