"""``yopp report``: a job's events as timelines, drawn and put on one page. Only ``plots`` needs Matplotlib."""
