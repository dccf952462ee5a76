"""``yopp report``: a job's events as lines of time, drawn, and put on one page. Only ``plots`` needs Matplotlib."""
