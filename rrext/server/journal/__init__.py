"""What an operator reads of a server: its log, the audit log, traces in a file or for OpenTelemetry."""
