"""Configuration files of the plug-in; Hydra reads them from a package."""
