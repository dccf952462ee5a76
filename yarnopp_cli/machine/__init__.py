"""The common parts of all machines of the cluster: calls and answers, deadlines, the mailbox, tokens. Pure."""
