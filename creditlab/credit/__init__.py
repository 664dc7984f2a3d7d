"""What it was worth: pure functions over the columns of an update, and the parts that methods are made of.

* `types`: the vocabulary between parts, and the `Credit` a method ends in; `conventions`: named presets
* `match`, `folds`, `weighting`, `shaping`: the parts that configuration chooses
* `normalise`, `episode`, `returns`, `graph`, `compare`: values of decisions and their comparison, for advantages
* `preferences`, `auxiliary`: ordered pairs of decisions, for auxiliary losses
* `segments`: integer keys; `diagnostics`: what a method reports

Arrays in, arrays out, float64: no torch, no environment, no configuration, no random state.
"""
