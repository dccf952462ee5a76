"""Commands that run jobs, wait for them and print their output."""
