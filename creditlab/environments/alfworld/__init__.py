"""ALFWorld: household tasks in text, played by an engine, a game generator and state views of this project's own."""
