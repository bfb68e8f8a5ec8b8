# All set-up happens here, into .venv; nothing else is touched.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# schemathesis and the makers of clients want other releases of what we use
API    := .venv-api
MADEUP := tests/reliability/api
# tools that build the package
PACK   := .venv-package

# code is compiled once, not at each start of a program
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-cluster demo-failover quick test test-rapi test-confd test-monitoring test-browser test-api test-generators test-lease test-systemd test-guide docs \
	bench faults cuts soak chaos commands lease takeovers mutations lint format clean

# STAY=1 keeps the cluster and its web page until a key is pressed
demo: $(READY)
	@$(BIN)/python -P deploy/demo/run.py $(if $(STAY),--stay)

demo-cluster: $(READY)
	@$(BIN)/python -P deploy/demo/machines.py

# needs etcd, such as Debian's etcd-server
demo-failover: $(READY)
	@$(BIN)/python -P deploy/demo/failover.py

# a small change: lint, types, and the unit tests of what differs from main, or from BASE=commit
quick: $(READY)
	@$(BIN)/python tests/quick.py $(BASE)

test: $(READY)
	@$(BIN)/python tests/check.py

# Ganeti's own client of the remote API; as root it installs Debian's python3-ganeti-rapi
test-rapi: $(READY)
	@$(BIN)/python -m tests.reliability.rapi.blackbox

# Ganeti's confd and its clients, beside ours: as root, with debootstrap and a network; FOLDER= keeps the Debian for the next time
test-confd: $(READY)
	@$(BIN)/python -m tests.reliability.ganeti.questions $(or $(FOLDER),/var/tmp/gantry-ganeti)

# alert rules, dashboard and /metrics by Prometheus's own promtool
test-monitoring: $(READY)
	@$(BIN)/python -m tests.monitoring

# the web page in a real browser; GANTRY_SCREENSHOTS=FOLDER keeps pictures of all pages
test-browser: $(READY)
	@$(BIN)/python -m tests.browser

# clients that openapi-python-client and datamodel-code-generator make of the HTTP interface's document, against a cluster
test-generators: $(READY) $(API)/.ready
	@$(BIN)/python -m tests.reliability.api.generated $(API)/bin

# the HTTP interface under made-up requests. SEED=s EXAMPLES=random requests of each call
test-api: $(READY) $(API)/.ready
	@$(BIN)/python -m tests.reliability.api.madeup $(API)/bin/schemathesis --seed $(or $(SEED),1) --examples $(or $(EXAMPLES),4)

# masters that die, hang and are cut off, under a lease in a real etcd of three members: at most five minutes
test-lease: $(READY)
	@$(BIN)/python -m tests.lease

# every command of the guide's pages, as root: each page has rooms of its own, made of name spaces. PAGES="plans ten-minutes" runs some
test-guide: $(READY)
	@$(BIN)/python -m tests.guide $(PAGES)

# the pictures of the documentation, from the running demo and page, into docs/pictures
.PHONY: pictures
pictures: $(READY)
	@$(BIN)/python -m tests.pictures

# the guide and the reference, into docs/_build/html
docs: $(READY)
	@$(BIN)/python docs/build.py

# a real systemd in containers, as root, with Debian's mmdebstrap and systemd-container; GANTRY_SYSTEMD_TREE=FOLDER keeps its Debian.
# LONG=1: three machines, too, also with an etcd. IF_POSSIBLE=1: a machine that cannot boot containers is no failure
test-systemd: $(READY) $(PACK)/.ready
	@$(BIN)/python -m tests.systemd $(if $(IF_POSSIBLE),--if-possible) $(if $(LONG),,--ignore=tests/systemd/test_three_machines.py --ignore=tests/systemd/test_mastership.py)

# PART=one part, RESULTS=file that keeps the figures; PART=beside BASE=commit GANETI=folder ROUNDS=n: beside an older
# Gantry, a real Ganeti that the folder keeps (as root), or both
bench: $(READY)
	@$(BIN)/python -m tests.bench $(if $(RESULTS),--results $(RESULTS)) $(PART) $(BASE) \
		$(if $(GANETI),--ganeti $(GANETI)) $(if $(ROUNDS),--rounds $(ROUNDS))

# RUNS= (nothing) tries each call in each way: twelve thousand runs
RUNS ?= 1000
faults: $(READY)
	@$(BIN)/python -m tests.reliability.faults.faults $(if $(RUNS),--sample $(RUNS)) $(if $(SEED),--seed $(SEED))

cuts: $(READY)
	@$(BIN)/python -m tests.reliability.powercuts.cuts $(if $(CUTS),--sample $(CUTS)) $(if $(SEED),--seed $(SEED))

# SEED=s MINUTES=m
soak: $(READY)
	@$(BIN)/python -m tests.reliability.soak.soak --minutes $(or $(MINUTES),1) --seed $(or $(SEED),1)

# SEED=s JOBS=changes of the queue CHANGES=of the configuration
chaos: $(READY)
	@$(BIN)/python -m tests.reliability.chaos.chaos --seed $(or $(SEED),1) --jobs $(or $(JOBS),300) --changes $(or $(CHANGES),100)

# SEED=s JOBS=n
commands: $(READY)
	@$(BIN)/python -m tests.reliability.commands.campaign --seed $(or $(SEED),1) --jobs $(or $(JOBS),200)

# SEED=s MOVES=n
moves: $(READY)
	@$(BIN)/python -m tests.reliability.moves.moves --moves $(or $(MOVES),10) --seed $(or $(SEED),1)

# SEED=s MINUTES=m
lease: $(READY)
	@$(BIN)/python -m tests.reliability.lease.run --minutes $(or $(MINUTES),5) --seed $(or $(SEED),1)

# COUNT=n KINDS=node,keeperd,stop,cut,switchover or all
takeovers: $(READY)
	@$(BIN)/python -m tests.reliability.lease.takeovers --count $(or $(COUNT),50) --kinds $(or $(KINDS),node)

mutations: $(READY)
	@$(BIN)/python -m tests.reliability.mutations.mutations

# dist/gantry_VERSION_ARCH.deb; VERSION=v OUTPUT=folder
.PHONY: deb
deb: $(PACK)/.ready
	@$(PACK)/bin/python deploy/package/build.py $(if $(VERSION),--version $(VERSION)) $(if $(OUTPUT),--output $(OUTPUT))

# two builds, of this commit, are equal byte for byte
.PHONY: deb-check
deb-check: $(PACK)/.ready
	@$(PACK)/bin/python deploy/package/check.py

# newer releases of all dependencies, with hashes; then read the changes, build and test
.PHONY: lock
lock: $(PACK)/.ready
	@$(PACK)/bin/uv pip compile --quiet --upgrade --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
		--custom-compile-command 'make lock' --output-file deploy/package/requirements.lock pyproject.toml

# installation to purge in a container of Debian, as root, as test-systemd: two builds, then about a minute
.PHONY: test-package
test-package: $(READY) $(PACK)/.ready
	@$(BIN)/python -m tests.package $(if $(IF_POSSIBLE),--if-possible)

lint: $(READY)
	@$(BIN)/python tests/check.py --no-tests

format: $(READY)
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(API) $(PACK) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Gantry needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(READY)

$(API)/.ready: $(MADEUP)/requirements.txt
	@echo "setting up $(API) ..."
	@$(PYTHON) -m venv $(API)
	@$(API)/bin/pip install --quiet --disable-pip-version-check --requirement $(MADEUP)/requirements.txt
	@touch $(API)/.ready

$(PACK)/.ready: deploy/package/tools.txt
	@echo "setting up $(PACK) ..."
	@$(PYTHON) -m venv $(PACK)
	@$(PACK)/bin/pip install --quiet --disable-pip-version-check --requirement deploy/package/tools.txt
	@touch $(PACK)/.ready
