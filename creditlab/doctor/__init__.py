"""`python -m creditlab.doctor`: what is installed and works, what is missing, and the command to get it.

Nothing but the standard library is imported here: the doctor has to answer where the rest is broken. Whatever needs an
import is asked of another process, with a time-out.
"""
