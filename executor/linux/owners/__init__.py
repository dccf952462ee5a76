"""Which user a container runs as, what is known of users, and who owns the directories that yopp uses."""
