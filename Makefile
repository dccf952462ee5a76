# Each target is one line and works in a fresh clone.
.PHONY: test pure lint types man demo ci
test: ; ./test.sh
pure: ; ./test.sh pure
lint: ; scripts/venv.sh dev && .venv/bin/ruff check . && .venv/bin/ruff format --check .
types: ; scripts/venv.sh dev && .venv/bin/mypy --strict -p executor -p yarnopp_cli
man: ; scripts/venv.sh dev && .venv/bin/python -m yarnopp_cli.manual && .venv/bin/python -m tests.documents
demo: ; ./yopp.sh pi -Dmapreduce.job.num-opportunistic-maps-percent=40 50 100
ci: ; bash .ci/run
