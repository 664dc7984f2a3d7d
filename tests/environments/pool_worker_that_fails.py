"""A worker that cannot be made."""

raise RuntimeError("no engine here")
