"""Commands that show and control applications, containers, nodes and queues."""
