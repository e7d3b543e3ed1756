"""The SDK: `rrext.Client`, its pipes, and the same without `async` in `rrext.blocking`."""
