"""What runs show: figures of their metrics."""
