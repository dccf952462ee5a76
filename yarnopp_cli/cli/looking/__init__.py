"""Commands that show and steer applications, containers, nodes and queues."""
