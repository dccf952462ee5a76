"""The common parts of all machines of the cluster: calls and answers, the mailbox, restarts, tokens. Pure."""
