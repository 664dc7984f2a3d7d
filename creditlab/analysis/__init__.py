"""What runs show: figures of their metrics, and the statistics of comparisons between them."""
