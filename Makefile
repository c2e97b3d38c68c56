# Forwards to tasks.py, which works on every system; `make` is only shorter to type.
PYTHON ?= python3

.PHONY: help demo check test build lock
.DEFAULT_GOAL := help

help:  ## show this list
	@$(PYTHON) tasks.py help

demo:  ## try Usher here and now
	@$(PYTHON) tasks.py demo

check:  ## check everything: format, lint, types, import rule, tests
	@$(PYTHON) tasks.py check

test:  ## run the tests
	@$(PYTHON) tasks.py test

build:  ## build the wheel and the source archive
	@$(PYTHON) tasks.py build

lock:  ## write the lock files again
	@$(PYTHON) tasks.py lock
