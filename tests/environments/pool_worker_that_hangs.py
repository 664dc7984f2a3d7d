"""A worker whose start takes for ever."""

import time

time.sleep(600)
