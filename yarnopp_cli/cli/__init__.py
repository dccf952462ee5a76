"""The command line: a module for each command, in a package for each section of the help."""
