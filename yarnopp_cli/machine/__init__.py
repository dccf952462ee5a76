"""What all machines of the cluster share: calls and answers, deadlines, the mailbox, tokens. Pure."""
